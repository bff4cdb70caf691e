// The search of the site: sections that have all words. They are in index.js, which is
// fetched when somebody begins to search.
"use strict";

const root = document.body.dataset.root;
const input = document.getElementById("search");
const found = document.getElementById("found");
const most = 20;

// Titles count for more than texts, and a whole word for more than a part of one.
function score(section, words) {
  const heading = (section.page + " " + section.heading).toLowerCase();
  const text = section.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const inHeading = heading.includes(word);
    const at = text.indexOf(word);
    if (!inHeading && at < 0) return 0;
    sum += (inHeading ? 10 : 0) + (at >= 0 ? 1 : 0);
    if (heading.split(/[^\p{L}\p{N}_]+/u).includes(word)) sum += 10;
  }
  // How things are comes before how they came to be.
  return /\/adr\/|\/reports\/|CHANGELOG|track-record/.test(section.url) ? sum / 2 : sum;
}

// The words around the first that was found.
function excerpt(text, words) {
  const at = Math.max(0, Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0), text.length) - 60);
  const from = at > 0 ? text.indexOf(" ", at) + 1 : 0; // whole words
  return (from > 0 ? "… " : "") + text.slice(from, from + 180) + (from + 180 < text.length ? "…" : "");
}

function show() {
  if (typeof sections === "undefined") return;
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length === 0 ? [] : sections
    .map((section) => ({ section, rank: score(section, words) }))
    .filter((hit) => hit.rank > 0)
    .sort((a, b) => b.rank - a.rank)
    .slice(0, most);
  found.replaceChildren(...hits.map(({ section }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = root + section.url;
    link.textContent = section.heading === section.page ? section.page : section.page + " › " + section.heading;
    const about = document.createElement("small");
    about.textContent = excerpt(section.text, words);
    item.append(link, about);
    return item;
  }));
  if (words.length > 0 && hits.length === 0) {
    const item = document.createElement("li");
    item.textContent = "No page has all of these words.";
    found.append(item);
  }
  found.hidden = words.length === 0;
  if (!found.hidden) scrollTo(0, 0); // to where the list is
}

function fetchSections() {
  const script = document.createElement("script");
  script.src = root + "index.js";
  script.addEventListener("load", show);
  document.head.append(script);
}

input.hidden = false;
input.addEventListener("focus", fetchSections, { once: true });
input.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === "Enter" && document.activeElement === input) found.querySelector("a")?.click();
  if (event.key === "Escape") {
    input.value = "";
    show();
  }
});
