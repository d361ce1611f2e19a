// Elements. All text goes in as text: nothing here, and nothing on this page, parses HTML.

// element("td", {class: "step", onclick: f}, "7", child, ...)
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function graphic(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Changes the page only where the text is another: a screen reader says each change of a live region.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function setClass(node, value) {
  setAttribute(node, "class", value);
}

// Makes the children of `parent` those of `items`, in this order. Children whose key stays are kept,
// with their focus.
function syncChildren(parent, items, keyOf, make, update) {
  const old = new Map();
  for (const child of parent.children) old.set(child.dataset.key, child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    old.delete(key);
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const gone of old.values()) gone.remove();
}

// Said by a screen reader when it has said what it says now.
function announce(text) {
  setText(document.getElementById("announcer"), text);
}

// A part of the page with a heading.
function section(id, title, ...children) {
  return element("section", {id, "aria-labelledby": `${id}-title`},
                 element("h2", {id: `${id}-title`}, title), ...children);
}

function cell(label, ...children) {
  return element("td", {role: "cell", "data-label": label}, ...children);
}
