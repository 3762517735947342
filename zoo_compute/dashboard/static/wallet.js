// Asks the browser's wallet (EIP-1193, found by EIP-6963) to send what the server has planned: it shows each sentence first, then follows it.
"use strict";

const wallets = new Map(); // name -> EIP-1193 provider
let provider = null;
let account = "";
let busy = false;
const box = document.getElementById("wallet");
const state = (name) => document.getElementById(`wallet-${name}`);

window.addEventListener("eip6963:announceProvider", (event) => {
  const { info, provider: found } = event.detail;
  wallets.set(String(info.name), found);
  offer();
});
window.dispatchEvent(new Event("eip6963:requestProvider"));

function offer() {
  if (!wallets.size && window.ethereum) wallets.set("Browser wallet", window.ethereum);
  const choice = state("choice");
  choice.replaceChildren(...[...wallets.keys()].map((name) => new Option(name, name)));
  choice.hidden = wallets.size < 2;
  state("none").hidden = wallets.size > 0;
  state("connect").hidden = !wallets.size || Boolean(account);
}

function say(text, kind = "") {
  const line = document.createElement("p");
  line.textContent = text;
  line.className = kind;
  state("log").append(line);
}

function words(error) {
  if (error?.code === 4001) return "You declined in your wallet: this transaction was not sent.";
  if (error?.code === -32002) return "Your wallet is already asking you: open it.";
  const inner = error?.data?.message || error?.message || String(error);
  return error?.hint ? `${inner} (${error.hint})` : inner;
}

async function ask(path, request) {
  const answer = await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request), credentials: "same-origin",
  });
  const body = await answer.json();
  if (body.error && body.state !== "refused") throw Object.assign(new Error(body.error), { hint: body.hint });
  return body;
}

function use(accounts) {
  account = accounts[0] || "";
  state("account").textContent = account || "not connected";
  box.dataset.account = account;
  offer();
}

async function connect() {
  provider = wallets.get(state("choice").value) || wallets.values().next().value;
  provider.on?.("accountsChanged", use);
  use(await provider.request({ method: "eth_requestAccounts" }));
}

async function onChain() {
  const wanted = "0x" + Number(box.dataset.chain).toString(16);
  if (await provider.request({ method: "eth_chainId" }) === wanted) return;
  try {
    await provider.request({ method: "wallet_switchEthereumChain", params: [{ chainId: wanted }] });
  } catch (error) {
    if (error?.code !== 4902) throw error;
    throw new Error(`Your wallet does not know chain ${box.dataset.chain}: add ${box.dataset.name} to it (its RPC is in your network file).`);
  }
  if (await provider.request({ method: "eth_chainId" }) !== wanted) throw new Error(`Your wallet is on another chain than ${box.dataset.chain}.`);
}

async function mined(hash) {
  for (;;) {
    const outcome = await ask("/wallet/outcome", { hash });
    if (outcome.state === "refused") throw Object.assign(new Error(`The contract refused it in block ${outcome.block}: ${outcome.error}`), { hint: outcome.hint });
    if (outcome.state === "mined") return outcome;
    await new Promise((wake) => setTimeout(wake, 500));
  }
}

function confirmed(plan) { // shows what will be signed; resolves when the reader presses Send or Leave it
  const list = state("list");
  list.replaceChildren(...plan.transactions.map((each) => {
    const item = document.createElement("li");
    item.textContent = each.description;
    return item;
  }));
  state("plan").hidden = false;
  state("send").focus();
  return new Promise((resolve) => {
    state("send").onclick = () => resolve(true);
    state("leave").onclick = () => resolve(false);
  }).finally(() => { state("plan").hidden = true; });
}

async function sendAll(plan) {
  let job = null;
  for (const [n, each] of plan.transactions.entries()) {
    say(`${n + 1} of ${plan.transactions.length}: waiting for your wallet…`);
    const { from, to, data, value, gas } = each;
    const hash = await provider.request({ method: "eth_sendTransaction", params: [{ from, to, data, value, gas }] });
    say(`${n + 1} of ${plan.transactions.length}: sent as ${hash}; waiting for a block…`);
    const outcome = await mined(hash);
    say(`${n + 1} of ${plan.transactions.length}: mined in block ${outcome.block}`, "good");
    job ??= outcome.job;
  }
  return job;
}

function posted(job) {
  const line = document.createElement("p");
  const link = document.createElement("a");
  link.href = `/jobs/${job}`;
  link.textContent = `job ${job} is posted`;
  line.append(link);
  state("log").append(line);
}

async function act(request, keep) {
  if (!account) await connect();
  if (!account) throw new Error("Your wallet shares no account with this page.");
  await onChain();
  for (let again = false; ; again = true) {
    say(again ? "Looking for what is left…" : "Preparing; nothing is sent yet…");
    const plan = await ask("/wallet/plan", { ...request, account });
    plan.said.forEach((each) => say(each));
    if (!plan.transactions.length) return say(again ? "Nothing is left to send." : "There is nothing to send.", "good");
    if (!await confirmed(plan)) return say("Left as it is: nothing was sent.");
    keep?.();
    const job = await sendAll(plan);
    if (job) posted(job);
    if (!plan.then) return say("Done.", "good");
  }
}

function bidding(request) { // [the request with a salt, what keeps the salt]. It stays in this browser: nobody can open the bid without it
  const key = `salt ${box.dataset.chain} ${request.job} ${request.kind} ${request.operator}`;
  if (request.action === "bid") {
    const salt = "0x" + [...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    // Kept when it is sent, and not before: a second bid, which the contract refuses, would forget the first one's.
    return [{ ...request, salt }, () => localStorage.setItem(key, JSON.stringify({ salt, price: request.price }))];
  }
  const kept = JSON.parse(localStorage.getItem(key) || "null");
  if (!kept) throw new Error("This browser keeps no bid of that operator on this job.");
  return [{ ...request, ...kept }];
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-action]");
  if (!form) return;
  event.preventDefault();
  if (busy) return;
  busy = true;
  state("log").replaceChildren();
  try {
    const request = { ...form.dataset, ...Object.fromEntries(new FormData(form)) };
    request.action = event.submitter?.value || request.action;
    await act(...(request.action === "bid" || request.action === "reveal" ? bidding(request) : [request]));
  } catch (error) {
    say(words(error), "bad");
  } finally {
    busy = false;
  }
});
state("connect").addEventListener("click", () => connect().catch((error) => say(words(error), "bad")));
offer();
