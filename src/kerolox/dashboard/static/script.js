// Reloads the parts of a page marked data-live="SECONDS", and implements "select all" check boxes.
"use strict";

for (const part of document.querySelectorAll("[data-live]")) {
  const seconds = Number(part.dataset.live);
  const reload = async () => {
    try {
      // Do not disturb keyboard focus or selected text, and do not poll in a hidden tab.
      const isInUse = part.contains(document.activeElement) || String(getSelection()) !== "";
      if (!document.hidden && !isInUse) {
        const response = await fetch(location.href, { credentials: "same-origin" });
        if (response.redirected) location.reload();
        const found = new DOMParser().parseFromString(await response.text(), "text/html").getElementById(part.id);
        if (found) part.replaceChildren(...found.childNodes);
      }
    } catch {
      // The dashboard is not reachable: keep the current content and try again.
    }
    setTimeout(reload, seconds * 1000);
  };
  setTimeout(reload, seconds * 1000);
}

for (const box of document.querySelectorAll("input[data-all]")) {
  box.addEventListener("change", () => {
    for (const other of document.querySelectorAll(`input[name="${box.dataset.all}"]`)) other.checked = box.checked;
  });
}
