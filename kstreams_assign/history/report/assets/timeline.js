"use strict";
// The ownership timeline of one group: rows are tasks, bars are copies, columns are generations. A canvas, since 200 tasks that wander
// for 100 generations are tens of thousands of bars, which no SVG scrolls or zooms smoothly. Text from the data goes to the page as text.

const Timeline = (() => {
  const FIELDS = 6; // of a bar in the payload: task, lane, process, role, first, last
  const ACTIVE = 0, STANDBY = 1, WARMUP = 2, COPY = 3;
  const HEAD = 44, SUBTOPOLOGY = 18, FIT_HEIGHT = 600, FIT_FROM = 48;
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
    2592000].map((seconds) => seconds * 1000);
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

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
  const clock = (ms) => { const at = new Date(ms); return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`; };
  const day = (ms) => new Date(ms).toISOString().slice(0, 10);
  const moment = (ms) => `${day(ms)} ${clock(ms)}`;

  function duration(ms) {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 60000) return `${+(ms / 1000).toFixed(1)} s`;
    for (const [unit, name, smaller, short] of [[86400000, "d", 3600000, "h"], [3600000, "h", 60000, "min"], [60000, "min", 1000, "s"]]) {
      if (ms >= unit) {
        const rest = Math.floor((ms % unit) / smaller);
        return `${Math.floor(ms / unit)} ${name}${rest && ms < 10 * unit ? ` ${rest} ${short}` : ""}`;
      }
    }
    return "";
  }

  // What people call a process: its endpoint, else its client without what all share, else its host or the head of its id.
  function nameOf(process, group) {
    let client = (process.client || "").replace(/-StreamThread-\d+-consumer$/, "").replace(/-consumer$/, "");
    if (client.startsWith(`${group.group}-`)) client = client.slice(group.group.length + 1);
    const name = process.endpoint || client || (process.host || "").replace(/^\//, "") || process.id;
    return name.replace(/([0-9a-f]{6})[0-9a-f]{2}-[0-9a-f]{4}-[0-9a-f-]{22}/i, "$1…");
  }

  // A sentence of evidence with processes and times written as everywhere on the page.
  function evidence(group, text) {
    const named = group.processes.reduce((said, process, index) => said.replaceAll(process.id, `${index + 1} ${nameOf(process, group)}`), text);
    return named.replace(/\b1\d{12}\b/g, (ms) => moment(Number(ms)));
  }

  const instanceColour = (process) => colour(`instance-${process % Number(colour("instances"))}`);

  function inkOn(fill) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16) / 255).map((part) => part ** 2.2);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#111418" : "#ffffff"; // where both contrasts are alike
  }

  const causeWords = {
    join: "join", leave: "leave", replace: "replacement", follow_up: "follow-up", probe: "probe", topic_change: "topic change",
    leader_change: "leader change", rejoin: "rejoin", first: "first seen", empty: "group went empty", unknown: "cause unknown",
  };
  const roleWords = { [ACTIVE]: "active", [STANDBY]: "standby", [WARMUP]: "warm-up", [COPY]: "standby or warm-up" };

  class View {
    constructor(host, group) {
      this.group = group;
      this.host = host;
      this.byTime = !group.equal;
      this.copies = true;
      this.fit = this.byOwner = group.tasks.length > FIT_FROM;
      this.which = "all";
      this.subtopology = "all";
      this.marked = new Set();
      this.cursor = null;
      this.drag = null;
      this.index();
      this.build();
      this.lay();
      this.all();
    }

    // --- the data, by row --------------------------------------------------------------------------------------------------

    index() {
      const { bars, tasks, moves } = this.group;
      this.rowsOf = tasks.map(() => []);
      for (let at = 0; at < bars.length; at += FIELDS) this.rowsOf[bars[at]].push(at);
      const taskAt = new Map(tasks.map(([task], index) => [task, index]));
      this.cold = tasks.map(() => []);
      for (const [generation, task, , , , warm] of moves) if (warm === false && taskAt.has(task)) this.cold[taskAt.get(task)].push(generation);
      this.holes = this.rowsOf.map((row) => this.unowned(row));
    }

    // Generations in which a task that is known has no active copy: withheld by KIP-429, or its owner could not be read.
    unowned(row) {
      const { bars, generations } = this.group;
      const owned = new Uint8Array(generations.length);
      let from = generations.length;
      for (const at of row) {
        from = Math.min(from, bars[at + 4]);
        if (bars[at + 3] === ACTIVE) owned.fill(1, bars[at + 4], bars[at + 5] + 1);
      }
      const found = [];
      for (let one = from; one < generations.length; one += 1) {
        if (owned[one] || generations[one].state === "empty") continue;
        const start = one;
        while (one + 1 < generations.length && !owned[one + 1] && generations[one + 1].state !== "empty") one += 1;
        found.push([start, one]);
      }
      return found;
    }

    // --- the page around the canvas ----------------------------------------------------------------------------------------

    build() {
      const { group } = this;
      this.head = element("canvas", { class: "head" });
      this.body = element("canvas", { class: "body" });
      this.view = element("div", { class: "view", tabIndex: 0, role: "application" }, this.head, this.body);
      this.view.setAttribute("aria-label", `Ownership timeline. ${group.titles.timeline}. Arrow keys go from task to task and from `
        + "generation to generation, plus and minus zoom, 0 shows all.");
      this.tip = element("div", { class: "tip", hidden: true });
      this.status = element("div", { class: "status", role: "status" }, this.help());
      this.host.replaceChildren(element("div", { class: "timeline" }, this.tools(), this.legend(), this.view, this.status, this.tip));
      this.view.addEventListener("pointermove", (event) => this.moved(event));
      this.view.addEventListener("pointerdown", (event) => this.pressed(event));
      this.view.addEventListener("pointerup", (event) => this.released(event));
      this.view.addEventListener("pointerleave", () => { if (!this.drag) this.point(null); });
      this.view.addEventListener("dblclick", () => this.all());
      this.view.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
      this.view.addEventListener("keydown", (event) => this.key(event));
      this.resize = new ResizeObserver(() => this.draw());
      this.resize.observe(this.view);
    }

    help() { return "Drag to zoom, double-click to see all; Ctrl and the wheel zoom too. Hover or use the arrow keys for details."; }

    tools() {
      const { group } = this;
      const set = (label, options, chosen, act) => {
        const buttons = options.map(([value, text]) => element("button", {
          type: "button", textContent: text,
          onclick: () => { buttons.forEach((one, index) => one.setAttribute("aria-pressed", options[index][0] === value)); act(value); },
        }));
        buttons.forEach((one, index) => one.setAttribute("aria-pressed", options[index][0] === chosen));
        return element("span", { class: "set", role: "group", "aria-label": label }, label, ...buttons);
      };
      const flap = group.tasks.some((task) => task[4] >= 3), moved = group.tasks.some((task) => task[3]);
      const which = [["all", "all"], ...(moved ? [["moved", "moved"]] : []), ...(flap ? [["flap", "flapping"]] : [])];
      const tools = element("div", { class: "tools" },
        set("Width", [["time", "time"], ["equal", "equal"]], this.byTime ? "time" : "equal", (value) => {
          this.byTime = value === "time"; this.all();
        }),
        set("Height", [["fit", "fit"], ["rows", "rows"]], this.fit ? "fit" : "rows", (value) => { this.fit = value === "fit"; this.lay(); this.draw(); }));
      if (group.tasks.length > 1) tools.append(set("Order", [["task", "task"], ["owner", "owner"]], this.byOwner ? "owner" : "task", (value) => {
        this.byOwner = value === "owner"; this.lay(); this.draw();
      }));
      if (which.length > 1) tools.append(set("Tasks", which, "all", (value) => { this.which = value; this.lay(); this.draw(); }));
      const subtopologies = [...new Set(group.tasks.map((task) => task[1]))];
      if (subtopologies.length > 1) {
        const select = element("select", { "aria-label": "Subtopology", onchange: () => { this.subtopology = select.value; this.lay(); this.draw(); } },
          element("option", { value: "all", textContent: "all subtopologies" }),
          ...subtopologies.map((one) => element("option", { value: String(one), textContent: `subtopology ${one}` })));
        tools.append(select);
      }
      const zoom = (text, label, act) => element("button", { type: "button", textContent: text, title: label, "aria-label": label, onclick: act });
      tools.append(element("span", { class: "set", role: "group", "aria-label": "Zoom" }, "Zoom",
        zoom("−", "zoom out", () => this.zoom(2)), zoom("+", "zoom in", () => this.zoom(0.5)),
        zoom("◀", "earlier", () => this.pan(-0.4)), zoom("▶", "later", () => this.pan(0.4)), zoom("all", "show all", () => this.all())));
      return tools;
    }

    legend() {
      const { group } = this;
      const key = (draw, text) => {
        const canvas = element("canvas");
        this.sharp(canvas, 26, 12, draw);
        return element("span", { class: "key" }, canvas, text);
      };
      const grey = colour("quiet");
      const roles = new Set(group.bars.filter((_, at) => at % FIELDS === 3));
      const legend = element("div", { class: "legend" },
        key((pen) => { pen.fillStyle = grey; pen.fillRect(0, 0, 26, 12); }, "active"));
      if (roles.has(STANDBY)) legend.append(key((pen) => { pen.globalAlpha = 0.55; pen.fillStyle = grey; pen.fillRect(0, 4, 26, 5); }, "standby"));
      if (roles.has(COPY)) legend.append(key((pen) => { pen.globalAlpha = 0.55; pen.fillStyle = grey; pen.fillRect(0, 4, 26, 5); }, "standby or warm-up (this leader does not report which)"));
      if (roles.has(WARMUP)) legend.append(key((pen) => this.stripes(pen, grey, 0, 3, 26, 6), "warm-up"));
      if (this.holes.some((holes) => holes.length)) legend.append(key((pen) => { pen.fillStyle = colour("bad"); pen.fillRect(0, 5, 26, 2); }, "no owner"));
      if (this.cold.some((cold) => cold.length)) legend.append(key((pen) => this.coldMark(pen, 10, 1), "moved cold"));
      const causes = [...new Set(group.generations.map((one) => one.cause))];
      for (const cause of Object.keys(causeWords).filter((one) => causes.includes(one))) {
        legend.append(key((pen) => { pen.fillStyle = colour(`cause-${cause}`); pen.fillRect(9, 0, 8, 12); }, causeWords[cause]));
      }
      const chips = element("div", { class: "legend", role: "group", "aria-label": "Instances; press to highlight" }, "Highlight");
      group.processes.forEach((process, index) => {
        const fill = instanceColour(index);
        const number = element("span", { class: "number-swatch", textContent: String(index + 1) });
        number.style.background = fill;
        number.style.color = inkOn(fill);
        const chip = element("button", { type: "button", title: `process ${process.id}`, onclick: () => {
          if (!this.marked.delete(index)) this.marked.add(index);
          chip.setAttribute("aria-pressed", this.marked.has(index));
          this.draw();
        } }, number, element("span", { textContent: nameOf(process, group) }));
        chip.setAttribute("aria-pressed", "false");
        chips.append(chip);
      });
      return element("div", {}, legend, chips);
    }

    // --- where things are --------------------------------------------------------------------------------------------------

    // The rows that are shown, from top to bottom, with their heights.
    lay() {
      const { tasks } = this.group;
      const shown = tasks.map((_, index) => index).filter((index) => (this.which !== "moved" || tasks[index][3])
        && (this.which !== "flap" || tasks[index][4] >= 3) && (this.subtopology === "all" || String(tasks[index][1]) === this.subtopology));
      const several = new Set(tasks.map((task) => task[1])).size > 1;
      if (this.byOwner) shown.sort((one, other) => tasks[one][1] - tasks[other][1] || this.compareOwners(one, other) || one - other);
      const fitted = Math.min(34, Math.max(3, Math.floor(FIT_HEIGHT / Math.max(1, shown.length))));
      this.rows = [];
      let top = 4, before = null;
      for (const task of shown) {
        const subtopology = tasks[task][1];
        if (several && subtopology !== before) {
          this.rows.push({ top, height: SUBTOPOLOGY, title: subtopology, count: shown.filter((one) => tasks[one][1] === subtopology).length });
          top += SUBTOPOLOGY;
          before = subtopology;
        }
        const lanes = tasks[task][2] - 1;
        const roomy = shown.length <= 12;
        let active = roomy ? 20 : 14, lane = roomy ? 7 : 5, gap = roomy ? 7 : 5;
        if (this.fit) {
          gap = fitted > 14 ? 3 : fitted > 5 ? 1 : 0;
          const room = fitted - gap;
          lane = lanes && room >= 5 + 2 * lanes ? Math.max(1, Math.floor((room * 0.45) / lanes) - 1) : 0;
          active = room - lanes * (lane ? lane + 1 : 0);
        }
        const height = active + lanes * (lane ? lane + 1 : 0) + gap;
        this.rows.push({ top, height, task, active, lane });
        top += height;
      }
      this.height = top + 4;
      this.cursor = null;
    }

    // By the last owner, then by when it came: a process' tasks show as a block, and its moves as stairs.
    compareOwners(one, other) {
      const { bars } = this.group;
      const last = (task) => this.rowsOf[task].reduce((best, at) => (bars[at + 3] === ACTIVE && (best < 0 || bars[at + 5] >= bars[best + 5]) ? at : best), -1);
      const [mine, yours] = [last(one), last(other)];
      if (mine < 0 || yours < 0) return yours - mine;
      return bars[mine + 2] - bars[yours + 2] || bars[mine + 4] - bars[yours + 4];
    }

    edge(generation) {
      const { generations } = this.group;
      if (!this.byTime) return generation;
      return generation < generations.length ? generations[generation].t : this.group.until;
    }

    all() {
      const { generations } = this.group;
      this.whole = [this.edge(0), this.edge(generations.length)];
      this.range = [...this.whole];
      this.draw();
    }

    x(value) { return this.left + ((value - this.range[0]) / (this.range[1] - this.range[0])) * (this.width - this.left - 10); }

    value(x) { return this.range[0] + ((x - this.left) / (this.width - this.left - 10)) * (this.range[1] - this.range[0]); }

    generationAt(value) {
      let low = 0, high = this.group.generations.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.edge(middle) <= value) low = middle; else high = middle - 1;
      }
      return low;
    }

    show(from, to) {
      const [first, last] = this.whole;
      const least = this.byTime ? 50 : 0.5;
      const length = Math.min(last - first, Math.max(least, to - from));
      const start = Math.min(Math.max(first, from), last - length);
      this.range = [start, start + length];
      this.point(null);
      this.draw();
    }

    zoom(factor, around = (this.range[0] + this.range[1]) / 2) {
      this.show(around - (around - this.range[0]) * factor, around + (this.range[1] - around) * factor);
    }

    pan(part) {
      const by = (this.range[1] - this.range[0]) * part;
      this.show(this.range[0] + by, this.range[1] + by);
    }

    // --- drawing -----------------------------------------------------------------------------------------------------------

    sharp(canvas, width, height, draw) {
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      draw(pen);
    }

    stripes(pen, fill, x, y, width, height) {
      pen.save();
      pen.beginPath();
      pen.rect(x, y, width, height);
      pen.clip();
      pen.globalAlpha *= 0.28;
      pen.fillStyle = fill;
      pen.fillRect(x, y, width, height);
      pen.globalAlpha /= 0.28;
      pen.strokeStyle = fill;
      pen.lineWidth = 2;
      pen.beginPath();
      const from = Math.max(x, 0) - ((Math.max(x, 0)) % 5) - height;
      for (let at = from; at < Math.min(x + width, this.width || 9999) + height; at += 5) { pen.moveTo(at, y + height); pen.lineTo(at + height, y); }
      pen.stroke();
      pen.restore();
    }

    coldMark(pen, x, y) {
      pen.fillStyle = colour("bad");
      pen.strokeStyle = colour("paper");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x - 4, y); pen.lineTo(x + 4, y); pen.lineTo(x, y + 7);
      pen.closePath();
      pen.fill();
      pen.stroke();
    }

    draw() {
      const width = this.view.clientWidth;
      if (!width) return;
      this.width = width;
      this.drawn = 0;
      this.measure();
      this.look = { paper: colour("paper"), ink: colour("ink"), quiet: colour("quiet"), line: colour("line"), faint: colour("faint"), bad: colour("bad") };
      this.fills = this.group.processes.map((_, index) => instanceColour(index));
      this.inks = this.fills.map(inkOn);
      this.sharp(this.head, width, HEAD, (pen) => this.drawHead(pen));
      this.picture = this.picture || element("canvas");
      this.sharp(this.picture, width, this.height, (pen) => this.drawBody(pen));
      this.overlay();
      this.host.dataset.bars = this.drawn;
      this.host.dataset.rows = this.rows.filter((row) => row.title === undefined).length;
      this.host.dataset.range = this.range.join(" ");
    }

    // What follows the pointer, above the picture that stays.
    overlay() {
      if (!this.picture) return;
      this.sharp(this.body, this.width, this.height, (pen) => {
        pen.drawImage(this.picture, 0, 0, this.width, this.height);
        pen.beginPath();
        pen.rect(this.left, 0, this.width - this.left - 8, this.height);
        pen.clip();
        if (this.cursor) this.column(pen);
        if (this.cursor && this.cursor.row) this.frame(pen);
        if (!this.drag || Math.abs(this.drag.to - this.drag.from) <= 3) return;
        pen.fillStyle = this.look.ink;
        pen.globalAlpha = 0.16;
        pen.fillRect(Math.min(this.drag.from, this.drag.to), 0, Math.abs(this.drag.to - this.drag.from), this.height);
      });
    }

    measure() {
      const pen = this.head.getContext("2d");
      pen.font = `12px ${FONT}`;
      const longest = this.group.tasks.reduce((most, [task]) => Math.max(most, pen.measureText(task).width), 20);
      this.left = Math.min(150, Math.ceil(longest) + 34);
    }

    ticks() {
      const { generations } = this.group;
      const [from, to] = this.range;
      if (!this.byTime) {
        const most = Math.max(2, Math.floor((this.width - this.left) / 44));
        const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((one) => (to - from) / one <= most) || 10000;
        const found = [];
        for (let at = Math.ceil(from / step) * step; at < to && at < generations.length; at += step) found.push([at + 0.5, String(generations[at].n)]);
        return found;
      }
      const step = STEPS.find((one) => (to - from) / one <= Math.max(2, (this.width - this.left) / 92)) || STEPS[STEPS.length - 1];
      const found = [];
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        const text = step >= 86400000 ? day(at) : step < 60000 ? clock(at) : clock(at).slice(0, 5);
        found.push([at, at % 86400000 === 0 && step < 86400000 ? day(at).slice(5) : text]);
      }
      return found;
    }

    drawHead(pen) {
      const { look } = this;
      pen.fillStyle = look.paper;
      pen.fillRect(0, 0, this.width, HEAD);
      pen.fillStyle = look.quiet;
      pen.font = `12px ${FONT}`;
      pen.textBaseline = "middle";
      pen.fillText(this.byTime ? day(Math.max(this.range[0], 0)).slice(5) : "gen.", 8, 12);
      pen.fillText("cause", 8, 33);
      pen.textAlign = "center";
      for (const [at, text] of this.ticks()) {
        const x = this.x(at);
        if (x < this.left + 10 || x > this.width - 18) continue;
        pen.fillText(text, x, 12);
        if (this.byTime) { pen.fillStyle = look.line; pen.fillRect(x, 20, 1, 4); pen.fillStyle = look.quiet; }
      }
      pen.save();
      pen.beginPath();
      pen.rect(this.left - 4, 0, this.width, HEAD);
      pen.clip();
      const { generations } = this.group;
      const order = generations.map((_, index) => index).sort((one, other) => (generations[one].cause !== "follow_up") - (generations[other].cause !== "follow_up"));
      for (const index of order) {
        const x = this.x(this.edge(index)), wide = this.x(this.edge(index + 1)) - x;
        if (x < this.left - 8 || x > this.width) continue;
        pen.fillStyle = colour(`cause-${generations[index].cause}`);
        if (this.byTime) {
          pen.fillRect(x - 2.5, 26, 6, 13);
          pen.strokeStyle = look.paper;
          pen.lineWidth = 1;
          pen.strokeRect(x - 3, 25.5, 7, 14);
        } else pen.fillRect(x + 0.5, 26, Math.max(1, wide - 1), 13);
      }
      pen.restore();
    }

    drawBody(pen) {
      const { look } = this;
      pen.fillStyle = look.paper;
      pen.fillRect(0, 0, this.width, this.height);
      pen.textBaseline = "middle";
      this.labels(pen);
      pen.save();
      pen.beginPath();
      pen.rect(this.left, 0, this.width - this.left - 8, this.height);
      pen.clip();
      for (const row of this.rows) if (row.title === undefined) this.drawRow(pen, row);
      this.lines(pen);
      pen.restore();
    }

    labels(pen) {
      const { look, group } = this;
      let free = -99;
      for (const row of this.rows) {
        pen.textAlign = "left";
        if (row.title !== undefined) {
          pen.fillStyle = look.faint;
          pen.fillRect(0, row.top, this.width, row.height - 2);
          pen.fillStyle = look.quiet;
          pen.font = `600 12px ${FONT}`;
          pen.fillText(row.title < 0 ? "other tasks" : `subtopology ${row.title}: ${row.count} task${row.count === 1 ? "" : "s"}`, 8, row.top + row.height / 2 - 0.5);
          free = row.top + row.height;
          continue;
        }
        const middle = row.top + row.active / 2 + 0.5;
        if (middle - 6 < free) continue;
        const [task, , , , busiest] = group.tasks[row.task];
        pen.textAlign = "right";
        pen.font = `${busiest >= 3 ? "600 " : ""}12px ${FONT}`;
        pen.fillStyle = busiest >= 3 ? look.bad : look.ink;
        pen.fillText(busiest >= 3 ? `⇄ ${task}` : task, this.left - 8, middle, this.left - 12);
        free = middle + 6.5;
      }
      pen.textAlign = "left";
    }

    top(row, lane) { return lane === 0 ? row.top : row.top + row.active + 1 + (lane - 1) * (row.lane + 1); }

    drawRow(pen, row) {
      const { bars } = this.group;
      pen.fillStyle = this.look.faint;
      if (row.height > 6) pen.fillRect(this.left, row.top, this.width, row.active);
      for (const at of this.rowsOf[row.task]) {
        const lane = bars[at + 1];
        if (lane && !row.lane) continue;
        const x = this.x(this.edge(bars[at + 4])), end = this.x(this.edge(bars[at + 5] + 1));
        if (end < this.left || x > this.width) continue;
        this.drawn += 1;
        this.bar(pen, row, at, x, end);
      }
      pen.fillStyle = this.look.bad;
      for (const [first, last] of this.holes[row.task]) {
        const x = this.x(this.edge(first)), end = this.x(this.edge(last + 1));
        if (end - x > 1) pen.fillRect(x, row.top + row.active / 2 - 1, end - x, Math.min(2, row.active));
      }
      if (row.active >= 7) for (const generation of this.cold[row.task]) this.coldMark(pen, this.x(this.edge(generation)), row.top - 1);
    }

    bar(pen, row, at, x, end) {
      const { bars } = this.group;
      const lane = bars[at + 1], process = bars[at + 2], role = bars[at + 3];
      const gap = end - x > 4 && row.active > 6 ? 1 : 0;
      const width = Math.max(0.7, end - x - gap), top = this.top(row, lane), height = lane ? row.lane : row.active;
      const faded = this.marked.size && !this.marked.has(process);
      pen.globalAlpha = faded ? 0.12 : 1;
      if (role === WARMUP) this.stripes(pen, this.fills[process], x, top, width, height);
      else {
        if (role !== ACTIVE) pen.globalAlpha *= 0.6;
        pen.fillStyle = this.fills[process];
        pen.fillRect(x, top, width, height);
      }
      pen.globalAlpha = 1;
      if (lane === 0 && height >= 10 && !faded) this.caption(pen, process, Math.max(x, this.left), Math.min(end, this.width - 10), top + height / 2 + 0.5);
    }

    caption(pen, process, x, end, middle) {
      pen.font = `600 11px ${FONT}`;
      const number = String(process + 1), long = `${number}  ${nameOf(this.group.processes[process], this.group)}`;
      const text = pen.measureText(long).width + 12 < end - x ? long : pen.measureText(number).width + 5 < end - x ? number : "";
      if (!text) return;
      pen.fillStyle = this.inks[process];
      pen.textAlign = text === long ? "left" : "center";
      pen.fillText(text, text === long ? x + 6 : (x + end) / 2, middle);
      pen.textAlign = "left";
    }

    // Where rebalances were. Those too close to draw apart are left out: the strip above still shows them.
    lines(pen) {
      const { generations } = this.group;
      const room = (this.width - this.left) / Math.max(1, this.generationAt(this.range[1]) - this.generationAt(this.range[0]) + 1);
      for (let index = 0; index < generations.length; index += 1) {
        const cause = generations[index].cause;
        const loud = ["join", "leave", "replace", "topic_change", "leader_change", "empty"].includes(cause);
        if (room < 9 && !loud) continue;
        const x = this.x(this.edge(index));
        if (x < this.left || x > this.width) continue;
        pen.globalAlpha = loud ? 0.9 : 0.5;
        pen.fillStyle = colour(`cause-${cause}`);
        pen.fillRect(x - 0.5, 0, loud ? 1.5 : 1, this.height);
      }
      pen.globalAlpha = 1;
    }

    column(pen) {
      const x = this.x(this.edge(this.cursor.generation)), end = this.x(this.edge(this.cursor.generation + 1));
      pen.fillStyle = this.look.ink;
      pen.globalAlpha = 0.08;
      pen.fillRect(x, 0, Math.max(2, end - x), this.height);
      pen.globalAlpha = 1;
    }

    frame(pen) {
      const { row, bar } = this.cursor, { bars } = this.group;
      pen.strokeStyle = this.look.ink;
      pen.lineWidth = 1.5;
      if (bar === undefined) return;
      const lane = bars[bar + 1], x = this.x(this.edge(bars[bar + 4])), end = this.x(this.edge(bars[bar + 5] + 1));
      pen.strokeRect(x, this.top(row, lane) - 0.5, Math.max(2, end - x - 1), (lane ? row.lane : row.active) + 1);
    }

    // --- what is under the pointer -----------------------------------------------------------------------------------------

    rowAt(y) {
      let low = 0, high = this.rows.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.rows[middle].top <= y) low = middle; else high = middle - 1;
      }
      const row = this.rows[low];
      return row && row.title === undefined && y < row.top + row.height ? row : undefined;
    }

    barAt(row, lane, generation) {
      const { bars } = this.group;
      return this.rowsOf[row.task].find((at) => bars[at + 1] === lane && bars[at + 4] <= generation && generation <= bars[at + 5]);
    }

    pick(event) {
      const box = this.body.getBoundingClientRect(), x = event.clientX - box.left;
      const inHead = event.clientY < this.head.getBoundingClientRect().bottom;
      const generation = inHead && this.byTime ? this.nearest(x) : this.generationAt(this.value(Math.max(x, this.left)));
      const row = inHead ? undefined : this.rowAt(event.clientY - box.top);
      if (!row) return { generation };
      const below = event.clientY - box.top - row.top - row.active;
      const lane = below <= 0 || !row.lane ? 0 : 1 + Math.floor(below / (row.lane + 1));
      const exact = this.barAt(row, lane, generation);
      return { generation, row, bar: exact === undefined ? this.barAt(row, 0, generation) : exact };
    }

    nearest(x) {
      const { generations } = this.group;
      return generations.reduce((best, _, index) => (Math.abs(this.x(this.edge(index)) - x) < Math.abs(this.x(this.edge(best)) - x) ? index : best), 0);
    }

    point(found, x, y) {
      const same = found && this.cursor && found.row === this.cursor.row && found.bar === this.cursor.bar && found.generation === this.cursor.generation;
      this.cursor = found;
      if (!found) { this.tip.hidden = true; this.status.textContent = this.help(); this.overlay(); return; }
      if (!same) {
        const [title, ...rest] = this.words(found);
        this.tip.replaceChildren(element("b", { textContent: title }), ...rest.map((text) => element("span", { textContent: text })));
        this.overlay();
      }
      this.tip.hidden = false;
      const box = this.tip.getBoundingClientRect();
      this.tip.style.left = `${Math.max(4, Math.min(x + 16, window.innerWidth - box.width - 8))}px`;
      this.tip.style.top = `${y + 18 + box.height > window.innerHeight ? Math.max(4, y - box.height - 14) : y + 18}px`;
    }

    words(found) {
      const { group } = this, { bars } = group;
      const rebalance = this.rebalanceWords(found.generation);
      if (!found.row) return rebalance;
      const task = group.tasks[found.row.task];
      if (found.bar === undefined) return [`${task[0]}: no owner in generation ${group.generations[found.generation].n}`, ...rebalance];
      const at = found.bar, process = group.processes[bars[at + 2]], [first, last] = [bars[at + 4], bars[at + 5]];
      const from = group.generations[first], until = last + 1 < group.generations.length ? group.generations[last + 1].t : group.end;
      const named = `${bars[at + 2] + 1} ${nameOf(process, group)}`;
      const to = group.generations[last].n, span = from.n === to ? `Generation ${to}` : `Generations ${from.n} to ${to}`;
      const ended = last + 1 < group.generations.length ? `until ${clock(until)}` : "until the history ends";
      return [`${task[0]}: ${roleWords[bars[at + 3]]} on ${named}`, `${span}: ${moment(from.t)} ${ended}, ${duration(Math.max(0, until - from.t))}`,
        ...this.lagWords(at, found.generation), `Process ${process.id}${process.ours === true ? ", a member of this library" : ""}`,
        `${rebalance[0]}. ${rebalance[2] || ""}`];
    }

    lagWords(at, generation) {
      const { group } = this, lags = group.lags[at / FIELDS];
      if (!lags) return [];
      for (let one = lags.length - 2; one >= 0; one -= 2) {
        if (lags[one] <= generation) return [`Lag as it joined generation ${group.generations[lags[one]].n}: ${lags[one + 1].toLocaleString("en")} offsets`];
      }
      return [];
    }

    rebalanceWords(index) {
      const { group } = this, one = group.generations[index];
      const list = (label, processes) => (processes.length ? [`${label} ${processes.map((process) => `${process + 1} ${nameOf(group.processes[process], group)}`).join(", ")}`] : []);
      return [`Generation ${one.n}: ${causeWords[one.cause]}${one.sure ? ` (${one.sure})` : ""}`, `${moment(one.t)} UTC`,
        ...(one.why ? [evidence(group, one.why)] : []), ...list("Joined:", one.joined), ...list("Left:", one.gone),
        ...(one.changes || one.adopted ? [`${one.changes || 0} owner changes, ${one.adopted || 0} adopted`] : []),
        ...(one.missing ? [`${one.missing} generations before it are in no record`] : [])];
    }

    // --- hands -------------------------------------------------------------------------------------------------------------

    moved(event) {
      if (this.drag) {
        this.drag.to = event.clientX - this.body.getBoundingClientRect().left;
        this.tip.hidden = true;
        this.overlay();
        return;
      }
      this.point(this.pick(event), event.clientX, event.clientY);
    }

    pressed(event) {
      if (event.button !== 0 || event.pointerType === "touch") return;
      const x = event.clientX - this.body.getBoundingClientRect().left;
      if (x > this.width - 10) return; // the scroll bar
      this.drag = { from: Math.max(x, this.left), to: x };
      this.view.setPointerCapture(event.pointerId);
    }

    released() {
      const { drag } = this;
      this.drag = null;
      this.overlay();
      if (drag && Math.abs(drag.to - drag.from) > 6) this.show(this.value(Math.min(drag.from, drag.to)), this.value(Math.max(drag.from, drag.to)));
    }

    wheeled(event) {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.value(event.clientX - this.body.getBoundingClientRect().left));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan((event.deltaX || event.deltaY) / 1000);
      }
    }

    key(event) {
      const act = {
        ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0), ArrowUp: () => this.step(0, -1), ArrowDown: () => this.step(0, 1),
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.all(), Escape: () => this.point(null),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    }

    step(across, down) {
      const tasks = this.rows.filter((row) => row.title === undefined), { generations } = this.group;
      if (!tasks.length) return;
      const at = this.cursor && this.cursor.row ? tasks.indexOf(this.cursor.row) : -1;
      const row = tasks[Math.min(tasks.length - 1, Math.max(0, at < 0 ? 0 : at + down))];
      const from = this.cursor ? this.cursor.generation : this.generationAt(this.range[0]);
      const generation = Math.min(generations.length - 1, Math.max(0, at < 0 ? from : from + across));
      const [low, high] = this.range, edge = this.edge(generation);
      if (edge < low || edge >= high) this.show(edge - (high - low) / 2, edge + (high - low) / 2);
      const { view } = this, above = row.top, below = row.top + row.height + HEAD;
      if (above < view.scrollTop) view.scrollTop = above;
      else if (below > view.scrollTop + view.clientHeight) view.scrollTop = below - view.clientHeight;
      const box = this.body.getBoundingClientRect(), found = { generation, row, bar: this.barAt(row, 0, generation) };
      this.point(found, box.left + Math.max(this.left, this.x(this.edge(generation))), box.top + row.top + row.height);
      this.status.textContent = this.words(found).join(". ");
    }

    gone() { this.resize.disconnect(); }
  }

  return { View, element, colour, duration, moment, nameOf, evidence, instanceColour, inkOn, causeWords };
})();
