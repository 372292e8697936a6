"use strict";
// busy reports whether a refresh would take something from the viewer.
const busy = () => document.querySelector("main").contains(document.activeElement)
  || document.querySelector("input:checked") !== null
  || [...document.querySelectorAll("input[type=text]")].some((i) => i.value !== i.defaultValue);
const stale = (text) => { document.querySelector("#stale").textContent = text; };
setInterval(async () => {
  if (document.hidden) return;
  if (busy()) {
    stale("Paused while you are in a form or on a link.");
    return;
  }
  try {
    const answer = await fetch(location.href);
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    if (!busy()) document.querySelector("main").replaceWith(next);
    stale("");
  } catch {
    stale("The page cannot be refreshed. What it shows is old.");
  }
}, 2000);
