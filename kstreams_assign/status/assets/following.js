"use strict";
// Looks again and again while the page is visible, until its button pauses it.

const follow = (everyMs, look) => {
  const button = document.getElementById("pause");
  const fresh = document.getElementById("fresh");
  let paused = false;
  let timer;

  // Screen readers read the text aloud whenever it is set.
  const say = (className, text) => {
    if (paused) return;
    fresh.className = className;
    if (fresh.textContent !== text) fresh.textContent = text;
  };

  const visible = () =>
    new Promise((resolve) => {
      if (document.hidden) document.addEventListener("visibilitychange", resolve, { once: true });
      else resolve();
    });

  // A look that is under way when the button is pressed shows nothing any more: ``isPaused`` says so.
  async function go() {
    await visible();
    if (paused) return;
    await look({ say, isPaused: () => paused });
    clearTimeout(timer);
    if (!paused) timer = setTimeout(go, everyMs);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    if (!paused) say("paused", `paused at ${new Date().toLocaleTimeString("en-GB")}`);
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    clearTimeout(timer);
    if (!paused) go();
  });
  return go;
};
