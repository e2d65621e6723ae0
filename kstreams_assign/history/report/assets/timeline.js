"use strict";
// The ownership timeline of one group: its tools, its legend, the pointer and the keys, around the canvas.
// Text from the data goes to the page as text.

const Timeline = (() => {
  const { element, colour, moment, clock, duration, nameOf, evidence, instanceColour, inkOn, causeWords } = Words;
  const { Canvas, FIELDS, ACTIVE, STANDBY, WARMUP, COPY, HEAD } = TimelineCanvas;
  const FIT_FROM = 48;
  const roleWords = { [ACTIVE]: "active", [STANDBY]: "standby", [WARMUP]: "warm-up", [COPY]: "standby or warm-up" };

  class View extends Canvas {
    constructor(host, group) {
      super();
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

    // --- the page around the canvas ---------------------------------------------------------------

    build() {
      const { group } = this;
      this.head = element("canvas", { class: "head" });
      this.body = element("canvas", { class: "body" });
      this.view = element("div", { class: "view", tabIndex: 0, role: "application" }, this.head, this.body);
      this.view.setAttribute(
        "aria-label",
        `Ownership timeline. ${group.titles.timeline}. Arrow keys go from task to task and from ` +
          "generation to generation, plus and minus zoom, 0 shows all.",
      );
      this.tip = element("div", { class: "tip", hidden: true });
      this.status = element("div", { class: "status", role: "status" }, this.help());
      this.host.replaceChildren(
        element("div", { class: "timeline" }, this.tools(), this.legend(), this.view, this.status, this.tip),
      );
      this.view.addEventListener("pointermove", (event) => this.moved(event));
      this.view.addEventListener("pointerdown", (event) => this.pressed(event));
      this.view.addEventListener("pointerup", (event) => this.released(event));
      this.view.addEventListener("pointerleave", () => {
        if (!this.drag) this.point(null);
      });
      this.view.addEventListener("dblclick", () => this.all());
      this.view.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
      this.view.addEventListener("keydown", (event) => this.key(event));
      this.resize = new ResizeObserver(() => this.draw());
      this.resize.observe(this.view);
    }

    help() {
      return (
        "Drag to zoom, double-click to see all; Ctrl and the wheel zoom too. " +
        "Hover or use the arrow keys for details."
      );
    }

    tools() {
      const { group } = this;
      const set = (label, options, chosen, act) => {
        const buttons = options.map(([value, text]) =>
          element("button", {
            type: "button",
            textContent: text,
            onclick: () => {
              buttons.forEach((button, index) => button.setAttribute("aria-pressed", options[index][0] === value));
              act(value);
            },
          }),
        );
        buttons.forEach((button, index) => button.setAttribute("aria-pressed", options[index][0] === chosen));
        return element("span", { class: "set", role: "group", "aria-label": label }, label, ...buttons);
      };
      const flap = group.tasks.some((task) => task[4] >= 3),
        moved = group.tasks.some((task) => task[3]);
      const which = [["all", "all"], ...(moved ? [["moved", "moved"]] : []), ...(flap ? [["flap", "flapping"]] : [])];
      const tools = element(
        "div",
        { class: "tools" },
        set(
          "Width",
          [
            ["time", "time"],
            ["equal", "equal"],
          ],
          this.byTime ? "time" : "equal",
          (value) => {
            this.byTime = value === "time";
            this.all();
          },
        ),
        set(
          "Height",
          [
            ["fit", "fit"],
            ["rows", "rows"],
          ],
          this.fit ? "fit" : "rows",
          (value) => {
            this.fit = value === "fit";
            this.lay();
            this.draw();
          },
        ),
      );
      if (group.tasks.length > 1)
        tools.append(
          set(
            "Order",
            [
              ["task", "task"],
              ["owner", "owner"],
            ],
            this.byOwner ? "owner" : "task",
            (value) => {
              this.byOwner = value === "owner";
              this.lay();
              this.draw();
            },
          ),
        );
      if (which.length > 1)
        tools.append(
          set("Tasks", which, "all", (value) => {
            this.which = value;
            this.lay();
            this.draw();
          }),
        );
      const subtopologies = [...new Set(group.tasks.map((task) => task[1]))];
      if (subtopologies.length > 1) {
        const select = element(
          "select",
          {
            "aria-label": "Subtopology",
            onchange: () => {
              this.subtopology = select.value;
              this.lay();
              this.draw();
            },
          },
          element("option", { value: "all", textContent: "all subtopologies" }),
          ...subtopologies.map((subtopology) =>
            element("option", { value: String(subtopology), textContent: `subtopology ${subtopology}` }),
          ),
        );
        tools.append(select);
      }
      const zoom = (text, label, act) =>
        element("button", { type: "button", textContent: text, title: label, "aria-label": label, onclick: act });
      tools.append(
        element(
          "span",
          { class: "set", role: "group", "aria-label": "Zoom" },
          "Zoom",
          zoom("−", "zoom out", () => this.zoom(2)),
          zoom("+", "zoom in", () => this.zoom(0.5)),
          zoom("◀", "earlier", () => this.pan(-0.4)),
          zoom("▶", "later", () => this.pan(0.4)),
          zoom("all", "show all", () => this.all()),
        ),
      );
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
      const legend = element(
        "div",
        { class: "legend" },
        key((pen) => {
          pen.fillStyle = grey;
          pen.fillRect(0, 0, 26, 12);
        }, "active"),
      );
      if (roles.has(STANDBY))
        legend.append(
          key((pen) => {
            pen.globalAlpha = 0.55;
            pen.fillStyle = grey;
            pen.fillRect(0, 4, 26, 5);
          }, "standby"),
        );
      if (roles.has(COPY))
        legend.append(
          key((pen) => {
            pen.globalAlpha = 0.55;
            pen.fillStyle = grey;
            pen.fillRect(0, 4, 26, 5);
          }, "standby or warm-up (this leader does not report which)"),
        );
      if (roles.has(WARMUP)) legend.append(key((pen) => this.stripes(pen, grey, 0, 3, 26, 6), "warm-up"));
      if (this.holes.some((holes) => holes.length))
        legend.append(
          key((pen) => {
            pen.fillStyle = colour("bad");
            pen.fillRect(0, 5, 26, 2);
          }, "no owner"),
        );
      if (this.cold.some((cold) => cold.length)) legend.append(key((pen) => this.coldMark(pen, 10, 1), "moved cold"));
      const causes = [...new Set(group.generations.map((generation) => generation.cause))];
      for (const cause of Object.keys(causeWords).filter((cause) => causes.includes(cause))) {
        legend.append(
          key((pen) => {
            pen.fillStyle = colour(`cause-${cause}`);
            pen.fillRect(9, 0, 8, 12);
          }, causeWords[cause]),
        );
      }
      const chips = element(
        "div",
        { class: "legend", role: "group", "aria-label": "Instances; press to highlight" },
        "Highlight",
      );
      group.processes.forEach((process, index) => {
        const fill = instanceColour(index);
        const number = element("span", { class: "number-swatch", textContent: String(index + 1) });
        number.style.background = fill;
        number.style.color = inkOn(fill);
        const chip = element(
          "button",
          {
            type: "button",
            title: `process ${process.id}`,
            onclick: () => {
              if (!this.marked.delete(index)) this.marked.add(index);
              chip.setAttribute("aria-pressed", this.marked.has(index));
              this.draw();
            },
          },
          number,
          element("span", { textContent: nameOf(process, group) }),
        );
        chip.setAttribute("aria-pressed", "false");
        chips.append(chip);
      });
      return element("div", {}, legend, chips);
    }

    // --- what is under the pointer ----------------------------------------------------------------

    rowAt(y) {
      let low = 0,
        high = this.rows.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.rows[middle].top <= y) low = middle;
        else high = middle - 1;
      }
      const row = this.rows[low];
      return row && row.title === undefined && y < row.top + row.height ? row : undefined;
    }

    barAt(row, lane, generation) {
      const { bars } = this.group;
      return this.rowsOf[row.task].find(
        (at) => bars[at + 1] === lane && bars[at + 4] <= generation && generation <= bars[at + 5],
      );
    }

    pick(event) {
      const box = this.body.getBoundingClientRect(),
        x = event.clientX - box.left;
      const inHead = event.clientY < this.head.getBoundingClientRect().bottom;
      const generation =
        inHead && this.byTime ? this.nearest(x) : this.generationAt(this.value(Math.max(x, this.left)));
      const row = inHead ? undefined : this.rowAt(event.clientY - box.top);
      if (!row) return { generation };
      const below = event.clientY - box.top - row.top - row.active;
      const lane = below <= 0 || !row.lane ? 0 : 1 + Math.floor(below / (row.lane + 1));
      const exact = this.barAt(row, lane, generation);
      return { generation, row, bar: exact === undefined ? this.barAt(row, 0, generation) : exact };
    }

    nearest(x) {
      const { generations } = this.group;
      return generations.reduce(
        (best, _, index) =>
          Math.abs(this.x(this.edge(index)) - x) < Math.abs(this.x(this.edge(best)) - x) ? index : best,
        0,
      );
    }

    point(target, x, y) {
      const same =
        target &&
        this.cursor &&
        target.row === this.cursor.row &&
        target.bar === this.cursor.bar &&
        target.generation === this.cursor.generation;
      this.cursor = target;
      if (!target) {
        this.tip.hidden = true;
        this.status.textContent = this.help();
        this.overlay();
        return;
      }
      if (!same) {
        const [title, ...rest] = this.words(target);
        this.tip.replaceChildren(
          element("b", { textContent: title }),
          ...rest.map((text) => element("span", { textContent: text })),
        );
        this.overlay();
      }
      this.tip.hidden = false;
      const box = this.tip.getBoundingClientRect();
      this.tip.style.left = `${Math.max(4, Math.min(x + 16, window.innerWidth - box.width - 8))}px`;
      this.tip.style.top = `${y + 18 + box.height > window.innerHeight ? Math.max(4, y - box.height - 14) : y + 18}px`;
    }

    words(target) {
      const { group } = this,
        { bars } = group;
      const rebalance = this.rebalanceWords(target.generation);
      if (!target.row) return rebalance;
      const task = group.tasks[target.row.task];
      if (target.bar === undefined)
        return [`${task[0]}: no owner in generation ${group.generations[target.generation].n}`, ...rebalance];
      const at = target.bar,
        process = group.processes[bars[at + 2]],
        [first, last] = [bars[at + 4], bars[at + 5]];
      const from = group.generations[first],
        until = last + 1 < group.generations.length ? group.generations[last + 1].t : group.end;
      const named = `${bars[at + 2] + 1} ${nameOf(process, group)}`;
      const to = group.generations[last].n,
        span = from.n === to ? `Generation ${to}` : `Generations ${from.n} to ${to}`;
      const ended = last + 1 < group.generations.length ? `until ${clock(until)}` : "until the history ends";
      return [
        `${task[0]}: ${roleWords[bars[at + 3]]} on ${named}`,
        `${span}: ${moment(from.t)} ${ended}, ${duration(Math.max(0, until - from.t))}`,
        ...this.lagWords(at, target.generation),
        `Process ${process.id}${process.ours === true ? ", a member of this library" : ""}`,
        `${rebalance[0]}. ${rebalance[2] || ""}`,
      ];
    }

    lagWords(at, generation) {
      const { group } = this,
        lags = group.lags[at / FIELDS];
      if (!lags) return [];
      for (let index = lags.length - 2; index >= 0; index -= 2) {
        if (lags[index] > generation) continue;
        const joined = group.generations[lags[index]].n;
        return [`Lag as it joined generation ${joined}: ${lags[index + 1].toLocaleString("en")} offsets`];
      }
      return [];
    }

    rebalanceWords(index) {
      const { group } = this,
        generation = group.generations[index];
      const named = (process) => `${process + 1} ${nameOf(group.processes[process], group)}`;
      const list = (label, processes) => (processes.length ? [`${label} ${processes.map(named).join(", ")}`] : []);
      return [
        `Generation ${generation.n}: ${causeWords[generation.cause]}${generation.sure ? ` (${generation.sure})` : ""}`,
        `${moment(generation.t)} UTC`,
        ...(generation.why ? [evidence(group, generation.why)] : []),
        ...list("Joined:", generation.joined),
        ...list("Left:", generation.gone),
        ...(generation.changes || generation.adopted
          ? [`${generation.changes || 0} owner changes, ${generation.adopted || 0} adopted`]
          : []),
        ...(generation.missing ? [`${generation.missing} generations before it are in no record`] : []),
      ];
    }

    // --- hands ------------------------------------------------------------------------------------

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
      if (drag && Math.abs(drag.to - drag.from) > 6)
        this.show(this.value(Math.min(drag.from, drag.to)), this.value(Math.max(drag.from, drag.to)));
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
        ArrowLeft: () => this.step(-1, 0),
        ArrowRight: () => this.step(1, 0),
        ArrowUp: () => this.step(0, -1),
        ArrowDown: () => this.step(0, 1),
        "+": () => this.zoom(0.5),
        "=": () => this.zoom(0.5),
        "-": () => this.zoom(2),
        0: () => this.all(),
        Escape: () => this.point(null),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    }

    step(across, down) {
      const tasks = this.rows.filter((row) => row.title === undefined),
        { generations } = this.group;
      if (!tasks.length) return;
      const at = this.cursor && this.cursor.row ? tasks.indexOf(this.cursor.row) : -1;
      const row = tasks[Math.min(tasks.length - 1, Math.max(0, at < 0 ? 0 : at + down))];
      const from = this.cursor ? this.cursor.generation : this.generationAt(this.range[0]);
      const generation = Math.min(generations.length - 1, Math.max(0, at < 0 ? from : from + across));
      const [low, high] = this.range,
        edge = this.edge(generation);
      if (edge < low || edge >= high) this.show(edge - (high - low) / 2, edge + (high - low) / 2);
      const { view } = this,
        above = row.top,
        below = row.top + row.height + HEAD;
      if (above < view.scrollTop) view.scrollTop = above;
      else if (below > view.scrollTop + view.clientHeight) view.scrollTop = below - view.clientHeight;
      const box = this.body.getBoundingClientRect(),
        target = { generation, row, bar: this.barAt(row, 0, generation) };
      this.point(target, box.left + Math.max(this.left, this.x(this.edge(generation))), box.top + row.top + row.height);
      this.status.textContent = this.words(target).join(". ");
    }

    gone() {
      this.resize.disconnect();
    }
  }

  return { View };
})();
