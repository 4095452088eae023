// What pages do beyond HTML: moments in the reader's zone, all boxes at once, and what changes as it changes.
// Everything else works without it.
"use strict";

// Moments: the exact one is in the title.
function moments(root) {
  const form = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
  const day = { year: "numeric", month: "2-digit", day: "2-digit" };
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };
  const exact = new Intl.DateTimeFormat(undefined, { ...day, ...clock });
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    time.title = time.dateTime;
    time.textContent = (time.className === "exact" ? exact : form).format(at);
  }
}

// A box that stands for all boxes of its list.
document.addEventListener("change", (event) => {
  const all = event.target;
  if (!(all instanceof HTMLInputElement) || !all.dataset.all) return;
  for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked;
});

// Whoever chooses some means those, and no longer all that fit.
document.addEventListener("change", (event) => {
  const scope = event.target.form?.querySelector("select[name=scope]");
  if (!scope || event.target.type !== "checkbox" || !event.target.closest("table")) return;
  const usual = [...scope.options].find((option) => option.defaultSelected) ?? scope.options[0];
  scope.value = event.target.form.querySelector("td input[type=checkbox]:checked") ? "chosen" : usual.value;
});

// Fields that belong to an act are shown with it.
function fields(form) {
  const act = form.querySelector("select[name=act]");
  if (!act) return;
  for (const part of form.querySelectorAll("[data-for]")) {
    part.hidden = !part.dataset.for.split(" ").includes(act.value);
  }
}
document.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement && event.target.form) fields(event.target.form);
});

// Whether somebody is in the middle of something that a fresh page would take away.
function inUse(part) {
  const active = document.activeElement;
  const written = [...part.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);
  if (written || part.querySelector("input[type=checkbox]:checked, details[open]")) return true;
  return active instanceof HTMLElement && part.contains(active) && active.matches("input, select, textarea, button");
}

// What in a part has the focus, so that the same thing has it when the part is replaced.
function named(element) {
  const text = element.localName === "summary" ? element.textContent : "";
  return [element.getAttribute("href"), element.getAttribute("aria-label"), text].join(" ");
}
function alike(part, kind, name) {
  return [...part.querySelectorAll(kind)].filter((element) => named(element) === name);
}
function focused(part) {
  const active = document.activeElement;
  if (!active || !part.contains(active)) return null;
  const [kind, name] = [active.localName, named(active)];
  return { kind, name, number: alike(part, kind, name).indexOf(active) };
}
function focus(part, { kind, name, number }) {
  const found = alike(part, kind, name);
  (found[number] ?? found[0])?.focus({ preventScroll: true });
}

// Between two tries to be told of changes, where the server has refused to.
const LISTEN_AGAIN_MS = 10_000;

function start() {
  const part = document.querySelector("[data-live]");
  // As the server has sent it: what comes later is compared with this.
  let seen = part && part.innerHTML;
  moments(document);
  document.querySelectorAll("form").forEach(fields);
  if (!part || !window.EventSource) return;
  const said = document.getElementById("live-said");
  let asked = false;
  let waits = false;
  async function refresh() {
    if (document.hidden || inUse(part)) return;
    // One at a time; what came meanwhile is asked for once more.
    if (asked) {
      waits = true;
      return;
    }
    asked = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
        if (fresh && !inUse(part) && fresh.innerHTML !== seen) {
          seen = fresh.innerHTML;
          const kept = focused(part);
          part.innerHTML = fresh.innerHTML;
          moments(part);
          if (kept) focus(part, kept);
          if (said) said.textContent = `Updated ${new Date().toLocaleTimeString()}`;
        }
      }
    } catch {
      // The next event asks again.
    }
    asked = false;
    if (waits) {
      waits = false;
      refresh();
    }
  }
  // What ends or grows old is told by no event: at most this long is it shown on.
  setInterval(refresh, 15000);
  document.addEventListener("visibilitychange", refresh);
  // Whether the page has said that nothing comes.
  let silent = false;
  function listen() {
    const source = new EventSource(part.dataset.live);
    for (const kind of ["counts", "order", "campaign", "campaigns"]) source.addEventListener(kind, refresh);
    // A server that cannot stream ends each answer; only one that does not answer the next time is away.
    let ended = false;
    source.addEventListener("open", () => {
      ended = false;
      if (silent && said) said.textContent = "Live updates again";
      if (silent) refresh();
      silent = false;
    });
    source.addEventListener("error", () => {
      const refused = source.readyState === EventSource.CLOSED;
      if (ended || refused) away(refused);
      ended = true;
    });
  }
  // A browser asks again by itself where nobody answers, and gives up where it is refused. Why, it does not say:
  // the page itself is asked for, which is the form to log in where a session has ended.
  async function away(refused) {
    silent = true;
    if (said) said.textContent = "No live updates for now";
    if (!refused) return;
    const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    if (answer?.status !== 401) {
      setTimeout(listen, LISTEN_AGAIN_MS);
      return;
    }
    const login = document.createElement("a");
    login.href = location.href;
    login.textContent = "log in again";
    if (said) said.replaceChildren("No live updates: your session has ended, ", login);
  }
  listen();
}
start();
