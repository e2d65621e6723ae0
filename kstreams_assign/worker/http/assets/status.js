"use strict";
// Asks for the status once a second and writes it down. Every text from the data is set as text, never as markup.

(() => {
  const EVERY_MS = 1000;
  const ANSWER_MS = 5000;
  const ROLES = { active: "active", standby: "standby", warmup: "warm-up", leaving: "leaving" };
  const VERDICTS = {
    live: ["Live", "Not alive"],
    ready: ["Ready", "Not ready"],
    scalable: ["May be scaled", "Do not scale now"],
  };
  const at = (id) => document.getElementById(id);
  const shown = new Map(); // id -> what it shows, so that nothing is rebuilt that has not changed
  let before = null; // [time, records] of the last answers, for the pace
  let since = null; // when the worker stopped answering

  function element(name, className, ...content) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...content.filter((one) => one !== null && one !== undefined));
    return made;
  }

  // A name that may be broken after its signs, not within its words.
  const soft = (text) => element("span", "", ...text.split(/(?<=[.:_-])/).flatMap((part) => [part, element("wbr", "")]));

  const number = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

  function span(ms) {
    if (ms === null || ms === undefined) return "–";
    const seconds = Math.max(0, Math.round(ms / 1000));
    for (const [unit, size, smaller, rest] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
      if (seconds >= size) {
        const left = Math.floor((seconds % size) / rest);
        return `${Math.floor(seconds / size)} ${unit}${left ? ` ${left} ${smaller}` : ""}`;
      }
    }
    return `${seconds} s`;
  }

  function fill(id, value, build) {
    const key = JSON.stringify(value);
    if (shown.get(id) === key) return;
    shown.set(id, key);
    at(id).replaceChildren(...build());
  }

  const row = (...cells) => element("tr", "", ...cells);
  const cell = (className, content) => element("td", className, content);
  const nothing = (columns, text) => {
    const made = cell("none", text);
    made.colSpan = columns;
    return row(made);
  };
  const role = (name) => element("span", `role ${name}`, ROLES[name] || name);

  function meter(copy) {
    if (copy.warm === null) return copy.as_joined ? element("span", "quiet", "not told since it joined") : element("span", "quiet", "not known yet");
    const percent = copy.caught_up ? Math.round(copy.warm * 100) : Math.min(99, Math.floor(copy.warm * 100));
    const bar = element("b", "");
    bar.style.width = `${percent}%`;
    return element("span", copy.caught_up ? "meter full" : "meter", element("i", "", bar), element("span", "", `${percent} %`));
  }

  const mostBehind = (changelogs) => Object.entries(changelogs).filter(([, lag]) => lag > 0).sort((a, b) => b[1] - a[1]).map(([name]) => name)[0] || "";

  function timeLeft(copy) {
    if (copy.queued) return "queued";
    if (copy.caught_up) return "caught up";
    if (copy.lag === null) return "–";
    return copy.left_ms === null ? (copy.offsets_per_s === null ? "–" : "no nearer") : span(copy.left_ms);
  }

  const pace = (copy) => (copy.lag ? number(copy.offsets_per_s) : "–");

  // --- the parts ---------------------------------------------------------------------

  function head(status) {
    document.title = `${status.application_id} – kstreams-assign`;
    at("application").textContent = status.application_id;
    const parts = [
      status.endpoint, `process ${status.process_id}`,
      status.generation === null ? "in no generation" : `generation ${status.generation}`,
      status.leads ? "leads the group" : status.generation === null ? "" : "follows",
    ];
    at("who").textContent = parts.filter(Boolean).join(" · ");
  }

  function verdicts(status) {
    const told = Object.entries(status.verdicts);
    const reasons = [...new Set(told.flatMap(([, verdict]) => verdict.reasons))]; // one reason may stand in the way of several
    fill("verdicts", told, () => {
      const made = told.map(([name, verdict]) => element("div", `verdict${verdict[name] ? "" : name === "live" ? " dead" : " no"}`, VERDICTS[name][verdict[name] ? 0 : 1]));
      if (reasons.length) made.push(element("ul", "reasons", ...reasons.map((reason) => element("li", "", reason))));
      return made;
    });
  }

  function card(title, strong, text, tone) {
    return element("div", `card ${tone || ""}`, element("small", "", title), element("strong", "", strong), text ? element("span", "", text) : null);
  }

  function counted(tasks) {
    const counts = Object.keys(ROLES).map((name) => [ROLES[name], tasks.filter((task) => task.role === name).length]);
    return counts.filter(([, count]) => count).map(([name, count]) => `${count} ${name}`).join(", ") || "none";
  }

  function cards(status) {
    const due = status.next_probe_ms === null ? null : status.next_probe_ms - status.now_ms;
    const probe = due === null ? (status.follow_up ? "follow-up at once" : "none is due") : due > 0 ? `in ${span(due)}` : "now";
    const perSecond = before && status.now_ms > before[0] ? ((status.records_total - before[1]) * 1000) / (status.now_ms - before[0]) : null;
    const member = status.broker_unavailable ? ["broker unreachable", "bad"] : status.draining ? ["draining", "warn"] : [status.state, status.state === "stable" ? "" : "warn"];
    const decided = status.assignor ? `decided by ${status.assignor}` : status.generation === null ? "" : "the leader is no member of ours";
    const made = [
      ["Member", member[0], decided, member[1]],
      [due === null ? "Next probe" : "Next probe, at the latest", probe, `Early probing: ${status.early_probing}`, due === null ? "" : "warn"],
      ["Tasks here", String(status.tasks.length), counted(status.tasks), ""],
      ["Records", number(status.records_total), `${perSecond === null ? "" : `${number(perSecond)} a second, `}${number(status.commits_total)} commits`, ""],
    ];
    fill("cards", made, () => made.map((one) => card(...one)));
    if (!before || status.now_ms - before[0] > 900) before = [status.now_ms, status.records_total];
  }

  function warmups(status) {
    at("probing").hidden = !status.warmups.length && status.next_probe_ms === null;
    const behind = status.warmups.filter((one) => !one.caught_up).length;
    const queue = status.warmup_queue ? ` The warm-up queue restores ${status.warmup_queue.at_once} at a time here.` : "";
    const what = !status.warmups.length ? "No warm-up is under way; the probe checks whether the group can be balanced better."
      : behind ? `${behind} of ${status.warmups.length} warm-ups have not caught up. Tasks change hands once they have.`
        : `All ${status.warmups.length} warm-ups have caught up: the next rebalance hands them over.`;
    at("probing-note").textContent = what + queue;
    fill("warmups", status.warmups, () => (status.warmups.length ? status.warmups.map((one) => {
      const made = row(
        cell("name", one.task), cell("long", soft(one.on)), cell("long", soft(one.changelogs.join(", ") || "none")), cell("", meter(one)),
        cell("number", one.lag === null ? "–" : `${number(one.lag)}${one.as_joined ? " at join" : ""}`),
        cell("number", pace(one)), cell("number", timeLeft(one)),
      );
      made.title = one.why;
      return made;
    }) : [nothing(7, "none")]));
  }

  function tasks(status) {
    const apart = Object.entries(status.between_owners);
    at("tasks-note").textContent = apart.length ? `Between two owners until the follow-up: ${apart.map(([task, name]) => `${task} (for ${name})`).join(", ")}` : "";
    fill("tasks", status.tasks, () => (status.tasks.length ? status.tasks.map((task) => row(
      cell("name", task.task), cell("", role(task.role)), cell("", task.state), cell("", meter(task)), cell("number", number(task.lag)),
      cell("number", pace(task)), cell("number", task.state === "running" ? "–" : timeLeft({ ...task, queued: task.state === "queued" })),
      cell("long", soft(mostBehind(task.changelogs))),
    )) : [nothing(8, "no task is here")]));
  }

  function chips(names, kind) {
    if (names === null) return element("span", "quiet", "not told here");
    return element("div", "chips", ...names.map((name) => element("span", `chip ${kind}`, name)));
  }

  function processes(status) {
    const known = status.leads
      ? "As this member, the leader, decided."
      : status.processes.length > 1
        ? "As the leader told: by endpoint (application_server), and warm-ups by process. The leader's page shows everything."
        : status.assignor === null ? "" : "Others are named here if they have an endpoint (application_server), and on the leader's page.";
    at("group-note").textContent = known;
    fill("processes", status.processes, () => (status.processes.length ? status.processes.map((one) => {
      const who = cell("long", element("b", "", soft(one.here ? one.endpoint || one.process_id.slice(0, 8) : one.name)));
      if (one.here) who.append(" ", element("span", "badge here", "this process"));
      if (one.leads) who.append(" ", element("span", "badge", "leads"));
      who.title = one.process_id || one.endpoint || "";
      return row(who, cell("", chips(one.active, "active")), cell("", chips(one.warmup, "warmup")), cell("", chips(one.standby, "standby")));
    }) : [nothing(4, "no assignment yet")]));
  }

  function warned(status) {
    at("warned").hidden = !status.warnings.length;
    fill("warnings", status.warnings, () => status.warnings.map((text) => element("li", "", text)));
  }

  // --- over and over ------------------------------------------------------------------

  function show(status) {
    for (const part of [head, verdicts, cards, warmups, tasks, processes, warned]) part(status);
    document.body.dataset.shown = String(status.now_ms);
  }

  function fresh(answered) {
    since = answered ? null : since || Date.now();
    at("fresh").className = answered ? "" : "stale";
    at("fresh").textContent = answered ? "up to date" : `the worker has not answered for ${span(Date.now() - since)}`;
  }

  async function refresh() {
    try {
      const answer = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      show(await answer.json());
      fresh(true);
    } catch (error) {
      fresh(false);
    }
    setTimeout(refresh, EVERY_MS);
  }

  refresh();
})();
