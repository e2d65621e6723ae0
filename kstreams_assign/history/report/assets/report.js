"use strict";
// The page at work: which group is shown, and its tables. Every text from the data is set as text, never as markup.

(() => {
  const { element, moment, duration, nameOf, evidence, instanceColour, inkOn, causeWords } = Words;
  const FEW = 200; // rows of a table before "show all"
  const WAY = 24; // moves of a flapping task that are shown
  const at = (id) => document.getElementById(id);
  const data = (id) => JSON.parse(at(id).textContent);
  let timeline = null;
  let group = null;

  const unknown = () => element("span", { class: "quiet", textContent: "unknown" });

  // An instance by its number alone; its name shows when one points at it.
  function chip(process) {
    if (process === null) return unknown();
    const fill = instanceColour(process);
    const number = element("span", {
      class: "number-swatch",
      textContent: String(process + 1),
      title: nameOf(group.processes[process], group),
    });
    number.style.background = fill;
    number.style.color = inkOn(fill);
    return number;
  }

  const who = (process) =>
    process === null ? unknown() : element("span", {}, chip(process), ` ${nameOf(group.processes[process], group)}`);

  const many = (processes) =>
    element("span", {}, ...processes.flatMap((process, index) => (index ? [" ", who(process)] : [who(process)])));
  const known = (value, text) =>
    value === null || value === undefined ? element("span", { class: "quiet", textContent: "?" }) : text(value);
  const time = (ms) => known(ms, duration);

  function table(host, caption, heads, rows) {
    if (!rows.length) {
      host.replaceChildren();
      return;
    }
    const body = element("tbody");
    const write = (some) =>
      body.append(
        ...some.map((cells) =>
          element(
            "tr",
            {},
            ...cells.map((cell, index) => {
              const [content, tone] = Array.isArray(cell) ? cell : [cell, ""];
              return element(
                "td",
                { class: [heads[index][1] || "", tone].filter(Boolean).join(" "), "data-label": heads[index][0] },
                content instanceof Node ? content : String(content),
              );
            }),
          ),
        ),
      );
    write(rows.slice(0, FEW));
    const head = element(
      "tr",
      {},
      ...heads.map(([text, number]) => element("th", { scope: "col", class: number || "", textContent: text })),
    );
    const box = element(
      "div",
      { class: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
      element("table", { class: "stacked" }, element("thead", {}, head), body),
    );
    host.replaceChildren(box);
    if (rows.length > FEW) {
      const more = element("button", {
        type: "button",
        textContent: `show all ${rows.length}`,
        onclick: () => {
          write(rows.slice(FEW));
          more.remove();
        },
      });
      host.append(more);
    }
  }

  // Only streams groups have these times, and only classic ones a leader and probes: a column for what there is.
  const someByBroker = () => group.generations.some((generation) => generation.by_broker);
  const someByLeader = () => group.generations.some((generation) => !generation.by_broker);

  function moves() {
    const timed = someByBroker();
    const rows = group.moves.map(([generation, task, source, target, planned, warm, held, gap, handover]) => [
      group.generations[generation].n,
      moment(group.generations[generation].t),
      task,
      who(source),
      who(target),
      known(planned, (yes) => (yes ? "planned" : "owner left")),
      warm === false ? ["cold", "warn"] : known(warm, () => "warm"),
      time(held),
      ...(timed ? [time(handover)] : []),
      time(gap),
    ]);
    table(
      at("moves"),
      group.titles.moves,
      [
        ["generation", "number"],
        ["time (UTC)"],
        ["task"],
        ["from", "wide"],
        ["to", "wide"],
        ["why"],
        ["replica"],
        ["held before", "number"],
        ...(timed ? [["hand-over", "number"]] : []),
        ["gap", "number"],
      ],
      rows,
    );
  }

  function rebalances() {
    const timed = someByBroker(),
      led = someByLeader();
    const rows = group.generations.map((generation) => {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = Words.colour(`cause-${generation.cause}`);
      return [
        generation.n,
        moment(generation.t),
        element(
          "span",
          {},
          swatch,
          causeWords[generation.cause],
          element("span", { class: "quiet", textContent: generation.sure ? `, ${generation.sure}` : "" }),
        ),
        evidence(group, generation.why),
        many(generation.joined),
        many(generation.gone),
        known(generation.changes, String),
        known(generation.adopted, String),
        ...(timed ? [time(generation.took)] : []),
        ...(led
          ? [
              generation.by_broker ? "" : known(generation.probing, (yes) => (yes ? "yes" : "no")),
              generation.by_broker ? "" : who(generation.leader),
            ]
          : []),
        generation.by_broker ? "the broker" : known(generation.assignor, String),
      ];
    });
    table(
      at("rebalances"),
      group.titles.rebalances,
      [
        ["generation", "number"],
        ["time (UTC)"],
        ["cause, how sure"],
        ["evidence", "text"],
        ["joined", "names"],
        ["left", "names"],
        ["changes", "number"],
        ["adopted", "number"],
        ...(timed ? [["took", "number"]] : []),
        ...(led ? [["probing"], ["leader", "names"]] : []),
        ["assignor", "wide"],
      ],
      rows,
    );
  }

  function flapping() {
    const rows = group.tasks
      .filter((task) => task[4] >= 3)
      .sort((left, right) => right[4] - left[4])
      .map(([task, , , count, busiest]) => {
        const path = group.moves.filter((move) => move[1] === task);
        const way = path
          .slice(0, WAY)
          .flatMap((move, index) => (index ? [" → ", chip(move[3])] : [chip(move[2]), " → ", chip(move[3])]));
        return [task, busiest, count, element("span", {}, ...way, path.length > WAY ? " …" : "")];
      });
    at("flapping-block").hidden = !rows.length;
    table(
      at("flapping"),
      group.titles.flapping,
      [["task"], ["moves in its busiest hour", "number"], ["moves", "number"], ["processes", "text"]],
      rows,
    );
  }

  function processes() {
    at("processes-title").textContent = `${group.processes.length} instance${group.processes.length === 1 ? "" : "s"}`;
    const rows = group.processes.map((process, index) => [
      who(index),
      process.id,
      process.endpoint || "",
      process.client || "",
      process.host || "",
      known(process.ours, (ours) => (ours ? "kstreams-assign" : "another")),
      known(process.version, String),
      process.tags.map((pair) => pair.join("=")).join(" "),
    ]);
    table(
      at("processes"),
      "Instances",
      [
        ["instance"],
        ["process id", "wide"],
        ["endpoint", "wide"],
        ["client", "wide"],
        ["host"],
        ["library"],
        ["version", "number"],
        ["tags", "wide"],
      ],
      rows,
    );
  }

  function about() {
    const last = group.generations[group.generations.length - 1];
    const text = [
      `${group.tasks.length} tasks`,
      `${group.processes.length} instances`,
      `generations ${group.generations[0].n} to ${last.n}`,
      `last at ${moment(last.t)} UTC`,
    ];
    const unchanged = group.end - group.drawn[group.drawn.length - 1];
    if (unchanged > 60000) text.push(`unchanged for ${duration(unchanged)} since`);
    at("about").textContent = text.join(", ");
  }

  function plots() {
    for (const name of ["causes", "skew", "warmups"]) at(name).setAttribute("aria-label", group.titles[name]);
    Charts.causes(at("causes"), group.buckets);
    Charts.skew(at("skew"), group);
    Charts.warmups(at("warmups"), group);
  }

  function show(index) {
    group = data(`group-${index}`);
    at("choose").value = String(index);
    document.querySelectorAll("#groups tr.chosen").forEach((row) => row.classList.remove("chosen"));
    const link = document.querySelector(`#groups a[data-group="${index}"]`);
    if (link) link.closest("tr").classList.add("chosen");
    for (const [name, text] of Object.entries(group.titles)) at(`${name}-title`).textContent = text;
    if (timeline) timeline.gone();
    timeline = new Timeline.View(at("timeline"), group);
    about();
    plots();
    flapping();
    moves();
    rebalances();
    processes();
    at("group").dataset.shown = String(index);
  }

  function fromHash() {
    const match = /^#group-(\d+)$/.exec(location.hash);
    return match && at(`group-${match[1]}`) ? Number(match[1]) : null;
  }

  function sortable(whole) {
    const heads = [...whole.querySelectorAll("th")];
    heads.forEach((head, column) =>
      head.querySelector("button").addEventListener("click", () => {
        const up =
          head.getAttribute("aria-sort") === "descending" ||
          (column === 0 && head.getAttribute("aria-sort") !== "ascending");
        heads.forEach((head) => head.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const key = (row) => {
          const cell = row.cells[column];
          return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
        };
        const rows = [...whole.tBodies[0].rows].map((row) => [key(row), row]);
        rows.sort(
          ([left], [right]) => (typeof left === "number" ? left - right : left.localeCompare(right)) * (up ? 1 : -1),
        );
        whole.tBodies[0].append(...rows.map(([, row]) => row));
      }),
    );
  }

  function redraw() {
    if (at("fleet-causes")) Charts.causes(at("fleet-causes"), data("fleet").buckets);
    const index = Number(at("group").dataset.shown);
    show(index);
  }

  function printing(now) {
    document.documentElement.classList.toggle("light", now);
    redraw();
  }

  sortable(at("groups"));
  if (at("fleet-causes")) Charts.causes(at("fleet-causes"), data("fleet").buckets);
  show(fromHash() ?? 0);
  at("choose").addEventListener("change", () => {
    history.replaceState(null, "", `#group-${at("choose").value}`);
    show(Number(at("choose").value));
  });
  window.addEventListener("hashchange", () => {
    const index = fromHash();
    if (index !== null) {
      show(index);
      at("group").scrollIntoView();
    }
  });
  document.querySelectorAll("a[data-group]").forEach((link) =>
    link.addEventListener("click", () => {
      if (location.hash === link.hash) at("group").scrollIntoView();
    }),
  );
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => printing(true));
  window.addEventListener("afterprint", () => printing(false));
})();
