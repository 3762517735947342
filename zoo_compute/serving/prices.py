"""What a request costs, known to both sides before it is answered."""

from zoo_compute.serving.questions import Question

PRICED = 1_000  # the tokens that a seat's price is for


def tokens_of_request(question: Question) -> int:
    """Those of all prompts, and the new ones that were asked for, whether a text ends early or not."""
    return sum(map(len, question.prompts)) + question.new_tokens * len(question.prompts)


def cost_of(question: Question, price: int) -> int:
    """In the token's smallest unit, rounded up. price: of a seat's offer, for 1,000 tokens."""
    return -(-price * tokens_of_request(question) // PRICED)
