// What pages do by themselves: parts marked data-live are loaded again every so many seconds.
"use strict";

for (const part of document.querySelectorAll("[data-live]")) {
  const seconds = Number(part.dataset.live);
  const again = async () => {
    try {
      // Whoever is at work in it with the keyboard or has marked text is not disturbed, and nobody is in a hidden tab.
      const isInUse = part.contains(document.activeElement) || String(getSelection()) !== "";
      if (!document.hidden && !isInUse) {
        const answer = await fetch(location.href, { credentials: "same-origin" });
        if (answer.redirected) location.reload();
        const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
        if (found) part.replaceChildren(...found.childNodes);
      }
    } catch {
      // The dashboard is away for a moment; what was seen last stays.
    }
    setTimeout(again, seconds * 1000);
  };
  setTimeout(again, seconds * 1000);
}

for (const box of document.querySelectorAll("input[data-all]")) {
  box.addEventListener("change", () => {
    for (const other of document.querySelectorAll(`input[name="${box.dataset.all}"]`)) other.checked = box.checked;
  });
}
