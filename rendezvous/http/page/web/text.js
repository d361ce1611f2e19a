// Text for people: ages, counts, names; and workers' text, made safe for a page.

// "3 d 4 h", "2 h 13 min", "45 s", "0.4 s": the two largest units, like `ddprun status`.
function age(milliseconds) {
  const ms = Math.max(0, milliseconds);
  if (ms < 10000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes === 0) return `${seconds} s`;
  if (hours === 0) return `${minutes} min ${seconds % 60} s`;
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Without tenths, so that a page drawn once a second does not flicker.
function wholeAge(milliseconds) {
  const ms = Math.max(0, milliseconds);
  return ms < 10000 ? `${Math.floor(ms / 1000)} s` : age(ms);
}

function number(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

function count(value, what) {
  return `${number(value)} ${what}${value === 1 ? "" : "s"}`;
}

// Steps per second, with three digits.
function rate(value) {
  if (value === null || value === undefined) return "–";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

// A job's name in a sentence; "none" is the id of a job without a name.
function nameOf(job) {
  return job === "none" ? "the job" : `job ${job}`;
}

// "state unreadable": an outcome of the JSON, for people.
function outcomeText(outcome) {
  return outcome.replaceAll("_", " ");
}

// Of a state that ranks load: its tier in the JSON, for people.
function tierText(tier) {
  return tier === "memory" ? "a snapshot" : "a checkpoint";
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const kColours = /\u001b\[[0-9;]*m/g;
const kUnprintable = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// Removes terminal colours. Makes all other control characters visible, and the characters that
// change the direction of text.
function printable(text) {
  return String(text).replace(kColours, "").replace(kUnprintable, "\ufffd");
}

// The text that a line leaves on a terminal: a progress bar overwrites itself with carriage
// returns.
function lastDrawn(line) {
  const trimmed = line.replace(/\r+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}

function clock(iso) {
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? "" : time.toLocaleTimeString("en-GB");
}
