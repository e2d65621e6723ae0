"use strict";
// Fetches the status once a second and shows it. Every text from the data is set as text, never as markup.

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
  const RATE_MS = 10000; // rates are means of so long
  const shown = new Map(); // id -> the value that it shows: only what changes is rebuilt
  let samples = []; // [time, records in, records out] of the last answers
  let silentSince = null; // when the worker stopped answering
  let askedAt = 0; // the last time

  function element(name, className, ...content) {
    const node = document.createElement(name);
    if (className) node.className = className;
    node.append(...content.filter((part) => part !== null && part !== undefined));
    return node;
  }

  // A name that may break after a punctuation mark, not within a word.
  const soft = (text) =>
    element("span", "", ...text.split(/(?<=[.:_-])/).flatMap((part) => [part, element("wbr", "")]));

  const number = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

  function span(ms) {
    if (ms === null || ms === undefined) return "–";
    const seconds = Math.max(0, Math.round(ms / 1000));
    for (const [unit, size, smaller, rest] of [
      ["d", 86400, "h", 3600],
      ["h", 3600, "min", 60],
      ["min", 60, "s", 1],
    ]) {
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
  // On a narrow screen each cell shows its label, and empty cells are hidden.
  const cell = (className, label, content) => {
    const node = element("td", content === "–" || content === "" ? `${className} blank` : className, content);
    node.dataset.label = label;
    return node;
  };
  const nothing = (columns, text) => {
    const node = element("td", "none", text);
    node.colSpan = columns;
    return row(node);
  };
  const role = (name) => element("span", `role ${name}`, ROLES[name] || name);

  function meter(replica) {
    if (replica.has_changelog === false) return element("span", "quiet", "no changelog");
    if (replica.warm === null)
      return element("span", "quiet", replica.as_joined ? "not reported since its join" : "not known yet");
    const percent = replica.caught_up ? Math.round(replica.warm * 100) : Math.min(99, Math.floor(replica.warm * 100));
    const bar = element("b", "");
    bar.style.width = `${percent}%`;
    return element(
      "span",
      replica.caught_up ? "meter full" : "meter",
      element("i", "", bar),
      element("span", "", `${percent} %`),
    );
  }

  const mostBehind = (changelogs) =>
    Object.entries(changelogs)
      .filter(([, lag]) => lag > 0)
      .sort((a, b) => b[1] - a[1])
      .map(([name]) => name)[0] || "";

  function timeLeft(replica) {
    if (replica.queued) return "queued";
    if (replica.caught_up) return "caught up";
    if (replica.lag === null) return "–";
    return replica.left_ms === null
      ? replica.offsets_per_s === null
        ? "–"
        : "not catching up"
      : span(replica.left_ms);
  }

  const pace = (replica) => (replica.lag ? number(replica.offsets_per_s) : "–");

  // --- the parts ---------------------------------------------------------------------

  // In a streams group the brokers assign: no member leads, and there are no probing rebalances.
  const inStreamsGroup = (status) => status.group_protocol === "streams";

  function membership(status) {
    if (inStreamsGroup(status)) return [status.generation ? `assignment ${status.generation}` : "no assignment"];
    if (status.generation === null) return ["in no generation"];
    return [`generation ${status.generation}`, status.leads ? "leader of the group" : "follower"];
  }

  function head(status) {
    document.title = `${status.application_id} – kstreams-assign`;
    at("application").textContent = status.application_id;
    const parts = [status.endpoint, `process ${status.process_id}`, ...membership(status)];
    at("who").textContent = parts.filter(Boolean).join(" · ");
  }

  function verdicts(status) {
    const entries = Object.entries(status.verdicts);
    // Several verdicts may share a reason.
    const reasons = [...new Set(entries.flatMap(([, verdict]) => verdict.reasons))];
    fill("verdicts", entries, () => {
      const nodes = entries.map(([name, verdict]) =>
        element(
          "div",
          `verdict${verdict[name] ? "" : name === "live" ? " dead" : " no"}`,
          VERDICTS[name][verdict[name] ? 0 : 1],
        ),
      );
      if (reasons.length) nodes.push(element("ul", "reasons", ...reasons.map((reason) => element("li", "", reason))));
      return nodes;
    });
  }

  function card(title, strong, text, tone) {
    return element(
      "div",
      `card ${tone || ""}`,
      element("small", "", title),
      element("strong", "", strong),
      text ? element("span", "", text) : null,
    );
  }

  function counted(tasks) {
    const counts = Object.keys(ROLES).map((name) => [ROLES[name], tasks.filter((task) => task.role === name).length]);
    return (
      counts
        .filter(([, count]) => count)
        .map(([name, count]) => `${count} ${name}`)
        .join(", ") || "none"
    );
  }

  // [records in, records out] a second, or null for the first answer.
  function rates(status) {
    const sample = [status.now_ms, status.records_total, status.records_out_total];
    // Smaller totals: the worker was restarted.
    if (samples.length && sample.some((value, at) => value < samples[samples.length - 1][at])) samples = [];
    samples = [...samples.filter(([time]) => sample[0] - time <= RATE_MS), sample];
    const [time, ...counts] = samples[0];
    return time === sample[0]
      ? null
      : counts.map((count, at) => ((sample[at + 1] - count) * 1000) / (sample[0] - time));
  }

  function inputLag(status) {
    const lags = Object.entries(status.input_lags).sort((a, b) => b[1] - a[1]);
    if (!lags.length) return ["–", "no input is processed here"];
    const total = lags.reduce((sum, [, lag]) => sum + lag, 0);
    return [number(total), total ? `most in ${lags[0][0]}: ${number(lags[0][1])}` : "all input is processed"];
  }

  function probing(status) {
    const early = `Early probing: ${status.early_probing}`;
    if (status.next_probe_ms === null)
      return ["Next probing rebalance", status.follow_up ? "follow-up at once" : "not due", early, ""];
    const due = status.next_probe_ms - status.now_ms;
    return ["Next probing rebalance, at the latest", due > 0 ? `in ${span(due)}` : "now", early, "warn"];
  }

  function cards(status) {
    const perSecond = rates(status);
    const member = status.broker_unavailable
      ? ["broker unreachable", "bad"]
      : status.draining
        ? ["draining", "warn"]
        : [status.state, status.state === "stable" ? "" : "warn"];
    const moving = Object.values(status.drain ?? {});
    const joining = status.join;
    const restored = Object.values(joining?.tasks ?? {});
    const others = joining?.joiners ? `, with ${joining.joiners} other${joining.joiners === 1 ? "" : "s"}` : "";
    const decided = joining
      ? `${restored.filter((task) => task.warm).length} of ${restored.length} tasks are warm before it joins${others}`
      : moving.length
        ? `${moving.filter((next) => next.warm).length} of ${moving.length} tasks are warm elsewhere`
        : status.assignor
          ? `assigned by ${status.assignor}`
          : status.generation === null
            ? ""
            : "the leader is not a kstreams-assign member";
    const totals = [status.records_total, status.records_out_total, status.commits_total].map(number);
    const total = `${totals[0]} in, ${totals[1]} out, ${totals[2]} commits since start`;
    const content = [
      ["Member", member[0], decided, member[1]],
      ...(inStreamsGroup(status) ? [] : [probing(status)]),
      ["Tasks here", String(status.tasks.length), counted(status.tasks), ""],
      ["Input lag, records", ...inputLag(status), ""],
      ["Records a second", perSecond ? `${number(perSecond[0])} in, ${number(perSecond[1])} out` : "–", total, ""],
    ];
    fill("cards", content, () => content.map((parts) => card(...parts)));
  }

  function warmups(status) {
    at("probing").hidden = !status.warmups.length && status.next_probe_ms === null;
    const behind = status.warmups.filter((warmup) => !warmup.caught_up).length;
    const queue = status.warmup_queue
      ? ` The warm-up queue restores ${status.warmup_queue.at_once} at a time in this process.`
      : "";
    const what = !status.warmups.length
      ? "No warm-up is under way. The probing rebalance checks whether the group can be balanced better."
      : behind
        ? `${behind} of ${status.warmups.length} warm-ups have not caught up. Tasks move once they have.`
        : `All ${status.warmups.length} warm-ups have caught up. The next rebalance moves their tasks.`;
    at("probing-note").textContent = what + queue;
    fill("warmups", status.warmups, () =>
      status.warmups.length
        ? status.warmups.map((warmup) => {
            const node = row(
              cell("name", "task", warmup.task),
              cell("long", "on", soft(warmup.on)),
              cell("long wide", "changelog", soft(warmup.changelogs.join(", ") || "none")),
              cell("", "restored", meter(warmup)),
              cell(
                "number",
                "changelog lag",
                warmup.lag === null ? "–" : `${number(warmup.lag)}${warmup.as_joined ? " at join" : ""}`,
              ),
              cell("number", "records/s", pace(warmup)),
              cell("number", "time left", timeLeft(warmup)),
            );
            node.title = warmup.why;
            return node;
          })
        : [nothing(7, "none")],
    );
  }

  function tasks(status) {
    const apart = Object.entries(status.between_owners);
    at("tasks-note").textContent = apart.length
      ? `Between two owners until the follow-up: ${apart.map(([task, name]) => `${task} (for ${name})`).join(", ")}`
      : "";
    fill("tasks", status.tasks, () =>
      status.tasks.length
        ? status.tasks.map((task) =>
            row(
              cell("name", "task", task.task),
              cell("", "role", role(task.role)),
              cell("", "state", task.paused_since_ms === null ? task.state : `${task.state}, paused`),
              cell("number", "input lag", number(task.input_lag)),
              cell("", "restored", meter(task)),
              cell("number", "changelog lag", task.has_changelog ? number(task.lag) : "–"),
              cell("number", "restored/s", pace(task)),
              cell(
                "number",
                "time left",
                task.state === "running" ? "–" : timeLeft({ ...task, queued: task.state === "queued" }),
              ),
              cell("long wide", "largest lag in", mostBehind(task.changelogs) ? soft(mostBehind(task.changelogs)) : ""),
            ),
          )
        : [nothing(9, "this process has no task")],
    );
  }

  function chips(names, kind) {
    if (names === null) return element("span", "quiet", "not known here");
    if (!names.length) return "–";
    return element("div", "chips", ...names.map((name) => element("span", `chip ${kind}`, name)));
  }

  function knownFrom(status) {
    if (inStreamsGroup(status))
      return "From the brokers: they name processes that have an endpoint (application_server).";
    if (status.leads) return "As this member, the leader, decided.";
    if (status.processes.length > 1)
      return (
        "From the leader's assignment: it names processes that have an endpoint (application_server) and those " +
        "with warm-ups. The leader's page shows all."
      );
    return status.assignor === null
      ? ""
      : "Other processes are shown here if they have an endpoint (application_server), and on the leader's page.";
  }

  function processes(status) {
    at("group-note").textContent = knownFrom(status);
    fill("processes", status.processes, () =>
      status.processes.length
        ? status.processes.map((process) => {
            const name = cell(
              "long wide",
              "",
              element("b", "", soft(process.here ? process.endpoint || process.process_id.slice(0, 8) : process.name)),
            );
            if (process.here) name.append(" ", element("span", "badge here", "this process"));
            if (process.leads) name.append(" ", element("span", "badge", "leader"));
            name.title = process.process_id || process.endpoint || "";
            return row(
              name,
              cell("wide", "active", chips(process.active, "active")),
              cell("wide", "warm-up", chips(process.warmup, "warmup")),
              cell("wide", "standby", chips(process.standby, "standby")),
            );
          })
        : [nothing(4, "no assignment yet")],
    );
  }

  function globalTables(status) {
    at("tables").hidden = !status.global_tables.length;
    fill("global-tables", status.global_tables, () =>
      status.global_tables.map((table) => {
        const state = table.stopped || (table.ready ? "can be read" : "is being read to its end");
        return element("li", "", `${table.name} (topic ${table.topic}): ${state}, lag ${number(table.lag)}`);
      }),
    );
  }

  function warned(status) {
    at("warned").hidden = !status.warnings.length;
    fill("warnings", status.warnings, () => status.warnings.map((text) => element("li", "", text)));
  }

  // --- over and over ------------------------------------------------------------------

  function show(status) {
    for (const part of [head, verdicts, cards, warmups, tasks, processes, globalTables, warned]) part(status);
    document.body.dataset.shown = String(status.now_ms);
  }

  async function look({ say, isPaused }) {
    const began = Date.now();
    if (began - askedAt > ANSWER_MS + 2 * EVERY_MS) silentSince = null; // nothing was asked meanwhile
    askedAt = began;
    try {
      const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const status = await answer.json();
      if (isPaused()) return;
      show(status);
      silentSince = null;
      say("", "up to date");
    } catch (error) {
      silentSince = silentSince || began;
      say("stale", `the worker has not answered for ${span(Date.now() - silentSince)}`);
    }
  }

  follow(EVERY_MS, look)();
})();
