// Makes elements. All text is inserted as text: nothing on this page parses HTML.

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

// Changes the page only if the text differs: a screen reader announces each change of a live
// region.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function setClass(node, value) {
  setAttribute(node, "class", value);
}

// Replaces the children of `parent` by those of `items`, in this order. Children with an unchanged
// key are kept, with their focus.
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

// A screen reader announces it after its current announcement.
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
