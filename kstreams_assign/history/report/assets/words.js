"use strict";
// Elements, colours and the words of the report: times, durations, names of processes and causes.

const Words = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function element(name, attributes = {}, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") made.className = value;
      else if (key in made && key !== "role") made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...content);
    return made;
  }

  const two = (number) => String(number).padStart(2, "0");
  const clock = (ms) => {
    const at = new Date(ms);
    return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  };
  const day = (ms) => new Date(ms).toISOString().slice(0, 10);
  const moment = (ms) => `${day(ms)} ${clock(ms)}`;

  function duration(ms) {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 60000) return `${+(ms / 1000).toFixed(1)} s`;
    for (const [unit, name, smaller, short] of [
      [86400000, "d", 3600000, "h"],
      [3600000, "h", 60000, "min"],
      [60000, "min", 1000, "s"],
    ]) {
      if (ms >= unit) {
        const rest = Math.floor((ms % unit) / smaller);
        return `${Math.floor(ms / unit)} ${name}${rest && ms < 10 * unit ? ` ${rest} ${short}` : ""}`;
      }
    }
    return "";
  }

  // The short name of a process: its endpoint, else its client id without the part that all share, else its host or
  // the head of its id.
  function nameOf(process, group) {
    let client = (process.client || "").replace(/-StreamThread-\d+-consumer$/, "").replace(/-consumer$/, "");
    if (client.startsWith(`${group.group}-`)) client = client.slice(group.group.length + 1);
    const name = process.endpoint || client || (process.host || "").replace(/^\//, "") || process.id;
    return name.replace(/([0-9a-f]{6})[0-9a-f]{2}-[0-9a-f]{4}-[0-9a-f-]{22}/i, "$1…");
  }

  // A sentence of evidence with processes and times written as everywhere on the page.
  function evidence(group, text) {
    const named = group.processes.reduce(
      (said, process, index) => said.replaceAll(process.id, `${index + 1} ${nameOf(process, group)}`),
      text,
    );
    return named.replace(/\b1\d{12}\b/g, (ms) => moment(Number(ms)));
  }

  const instanceColour = (process) => colour(`instance-${process % Number(colour("instances"))}`);

  function inkOn(fill) {
    const [red, green, blue] = [1, 3, 5]
      .map((at) => parseInt(fill.slice(at, at + 2), 16) / 255)
      .map((part) => part ** 2.2);
    const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    return luminance > 0.18 ? "#111418" : "#ffffff"; // at 0.18 both contrasts are equal
  }

  const causeWords = {
    join: "join",
    leave: "leave",
    replace: "replacement",
    follow_up: "follow-up",
    probe: "probe",
    topic_change: "topic change",
    leader_change: "leader change",
    rejoin: "rejoin",
    first: "first seen",
    empty: "group went empty",
    unknown: "cause unknown",
  };

  return { element, colour, clock, day, moment, duration, nameOf, evidence, instanceColour, inkOn, causeWords };
})();
