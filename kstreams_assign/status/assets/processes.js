"use strict";
// Fetches this page every two seconds and renews in place what has changed, so that focus and scroll positions stay.

(() => {
  const EVERY_MS = 2000;
  const ANSWER_MS = 10000; // the server hangs up then
  const PARTS = ["application", "summary", "verdicts", "processes"];
  let lastAnswer = new Date();

  // Makes a node equal to that of an answer. A node whose own tag, attributes and text are equal stays the same node.
  function renew(shown, answered) {
    if (shown.isEqualNode(answered)) return;
    if (!shown.cloneNode().isEqualNode(answered.cloneNode())) {
      shown.replaceWith(answered);
      return;
    }
    const [before, after] = [[...shown.childNodes], [...answered.childNodes]];
    before.forEach((node, at) => (at < after.length ? renew(node, after[at]) : node.remove()));
    shown.append(...after.slice(before.length));
  }

  async function look({ say, isPaused }) {
    try {
      const answer = await fetch("", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const parts = PARTS.map((id) => page.getElementById(id));
      if (!answer.ok || parts.includes(null)) throw new Error("the answer is not this page");
      if (isPaused()) return;
      PARTS.forEach((id, at) => renew(document.getElementById(id), parts[at]));
      lastAnswer = new Date();
      say("", "up to date");
    } catch (error) {
      say("stale", `no answer since ${lastAnswer.toLocaleTimeString("en-GB")}`);
    }
  }

  setTimeout(follow(EVERY_MS, look), EVERY_MS);
})();
