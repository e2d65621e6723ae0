"use strict";
// The canvas of the ownership timeline: rows are tasks, bars are replicas, columns are generations. It is a canvas,
// since 200 tasks that move in 100 generations are tens of thousands of bars, which no SVG scrolls or zooms smoothly.

const TimelineCanvas = (() => {
  const { element, colour, clock, day, nameOf, instanceColour, inkOn } = Words;
  const FIELDS = 6; // of a bar in the payload: task, lane, process, role, first, last
  const [ACTIVE, STANDBY, WARMUP, COPY] = [0, 1, 2, 3]; // roles in the payload
  const [HEAD, SUBTOPOLOGY, FIT_HEIGHT] = [44, 18, 600];
  const HEIGHT_MAX = 32767; // pixels: browsers draw nothing on a higher canvas
  const STEPS = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600,
    2592000,
  ].map((seconds) => seconds * 1000);
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

  // A subclass makes the elements (`head`, `body`, `view`) and sets what is shown.
  class Canvas {
    // --- the data, by row -------------------------------------------------------------------------

    index() {
      const { bars, tasks, moves } = this.group;
      this.rowsOf = tasks.map(() => []);
      for (let at = 0; at < bars.length; at += FIELDS) this.rowsOf[bars[at]].push(at);
      const taskAt = new Map(tasks.map(([task], index) => [task, index]));
      this.cold = tasks.map(() => []);
      for (const [generation, task, , , , warm] of moves)
        if (warm === false && taskAt.has(task)) this.cold[taskAt.get(task)].push(generation);
      this.holes = this.rowsOf.map((row) => this.unowned(row));
    }

    // Generations in which a known task has no active owner: withheld by KIP-429, or its owner could not be read.
    unowned(row) {
      const { bars, generations } = this.group;
      const owned = new Uint8Array(generations.length);
      let from = generations.length;
      for (const at of row) {
        from = Math.min(from, bars[at + 4]);
        if (bars[at + 3] === ACTIVE) owned.fill(1, bars[at + 4], bars[at + 5] + 1);
      }
      const gaps = [];
      for (let index = from; index < generations.length; index += 1) {
        if (owned[index] || generations[index].state === "empty") continue;
        const start = index;
        while (index + 1 < generations.length && !owned[index + 1] && generations[index + 1].state !== "empty")
          index += 1;
        gaps.push([start, index]);
      }
      return gaps;
    }
    // --- where things are -------------------------------------------------------------------------

    // The rows that are shown, from top to bottom, with their heights.
    lay() {
      const { tasks } = this.group;
      const shown = tasks
        .map((_, index) => index)
        .filter(
          (index) =>
            (this.which !== "moved" || tasks[index][3]) &&
            (this.which !== "flap" || tasks[index][4] >= 3) &&
            (this.subtopology === "all" || String(tasks[index][1]) === this.subtopology),
        );
      const several = new Set(tasks.map((task) => task[1])).size > 1;
      if (this.byOwner)
        shown.sort(
          (left, right) => tasks[left][1] - tasks[right][1] || this.compareOwners(left, right) || left - right,
        );
      const fitted = Math.min(34, Math.max(3, Math.floor(FIT_HEIGHT / Math.max(1, shown.length))));
      this.rows = [];
      let before = null;
      for (const task of shown) {
        const subtopology = tasks[task][1];
        if (several && subtopology !== before) {
          this.rows.push({
            height: SUBTOPOLOGY,
            title: subtopology,
            count: shown.filter((task) => tasks[task][1] === subtopology).length,
          });
          before = subtopology;
        }
        const lanes = tasks[task][2] - 1;
        const roomy = shown.length <= 12;
        let active = roomy ? 20 : 14,
          lane = roomy ? 7 : 5,
          gap = roomy ? 7 : 5;
        if (this.fit) {
          gap = fitted > 14 ? 3 : fitted > 5 ? 1 : 0;
          const room = fitted - gap;
          lane = lanes && room >= 5 + 2 * lanes ? Math.max(1, Math.floor((room * 0.45) / lanes) - 1) : 0;
          active = room - lanes * (lane ? lane + 1 : 0);
        }
        const height = active + lanes * (lane ? lane + 1 : 0) + gap;
        this.rows.push({ height, task, active, lane });
      }
      this.place();
      this.cursor = null;
    }

    // Gives each row its top, and makes the rows of tasks smaller where a browser could not draw all of them.
    place() {
      const margin = 4;
      const taskRows = this.rows.filter((row) => row.title === undefined);
      const titles = (this.rows.length - taskRows.length) * SUBTOPOLOGY;
      const wanted = taskRows.reduce((sum, row) => sum + row.height, 0);
      const scale = Math.min(1, (HEIGHT_MAX - 2 * margin - titles) / wanted);
      for (const row of taskRows) {
        row.height *= scale;
        row.active *= scale;
        row.lane = Math.max(0, (row.lane + 1) * scale - 1); // a lane and the pixel before it become smaller together
      }
      let top = margin;
      for (const row of this.rows) {
        row.top = top;
        top += row.height;
      }
      this.height = top + margin;
    }

    // By the last owner, then by when it came: a process' tasks show as a block, and its moves as stairs.
    compareOwners(left, right) {
      const { bars } = this.group;
      const last = (task) =>
        this.rowsOf[task].reduce(
          (best, at) => (bars[at + 3] === ACTIVE && (best < 0 || bars[at + 5] >= bars[best + 5]) ? at : best),
          -1,
        );
      const [mine, yours] = [last(left), last(right)];
      if (mine < 0 || yours < 0) return yours - mine;
      return bars[mine + 2] - bars[yours + 2] || bars[mine + 4] - bars[yours + 4];
    }

    edge(generation) {
      const { drawn, until } = this.group;
      if (!this.byTime) return generation;
      return generation < drawn.length ? drawn[generation] : until;
    }

    all() {
      const { generations } = this.group;
      this.whole = [this.edge(0), this.edge(generations.length)];
      this.range = [...this.whole];
      this.draw();
    }

    x(value) {
      return this.left + ((value - this.range[0]) / (this.range[1] - this.range[0])) * (this.width - this.left - 10);
    }

    value(x) {
      return this.range[0] + ((x - this.left) / (this.width - this.left - 10)) * (this.range[1] - this.range[0]);
    }

    generationAt(value) {
      let low = 0,
        high = this.group.generations.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.edge(middle) <= value) low = middle;
        else high = middle - 1;
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

    // --- drawing ----------------------------------------------------------------------------------

    sharp(canvas, width, height, draw) {
      const ratio = Math.min(window.devicePixelRatio || 1, HEIGHT_MAX / height);
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
      const from = Math.max(x, 0) - (Math.max(x, 0) % 5) - height;
      for (let at = from; at < Math.min(x + width, this.width || 9999) + height; at += 5) {
        pen.moveTo(at, y + height);
        pen.lineTo(at + height, y);
      }
      pen.stroke();
      pen.restore();
    }

    coldMark(pen, x, y) {
      pen.fillStyle = colour("bad");
      pen.strokeStyle = colour("paper");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x - 4, y);
      pen.lineTo(x + 4, y);
      pen.lineTo(x, y + 7);
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
      this.look = {
        paper: colour("paper"),
        ink: colour("ink"),
        quiet: colour("quiet"),
        line: colour("line"),
        faint: colour("faint"),
        bad: colour("bad"),
      };
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
        const step =
          [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((size) => (to - from) / size <= most) || 10000;
        const ticks = [];
        for (let at = Math.ceil(from / step) * step; at < to && at < generations.length; at += step)
          ticks.push([at + 0.5, String(generations[at].n)]);
        return ticks;
      }
      const step =
        STEPS.find((size) => (to - from) / size <= Math.max(2, (this.width - this.left) / 92)) ||
        STEPS[STEPS.length - 1];
      const ticks = [];
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        const text = step >= 86400000 ? day(at) : step < 60000 ? clock(at) : clock(at).slice(0, 5);
        ticks.push([at, at % 86400000 === 0 && step < 86400000 ? day(at).slice(5) : text]);
      }
      return ticks;
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
        if (this.byTime) {
          pen.fillStyle = look.line;
          pen.fillRect(x, 20, 1, 4);
          pen.fillStyle = look.quiet;
        }
      }
      pen.save();
      pen.beginPath();
      pen.rect(this.left - 4, 0, this.width, HEAD);
      pen.clip();
      const { generations } = this.group;
      const order = generations
        .map((_, index) => index)
        .sort((left, right) => (generations[left].cause !== "follow_up") - (generations[right].cause !== "follow_up"));
      for (const index of order) {
        const x = this.x(this.edge(index)),
          wide = this.x(this.edge(index + 1)) - x;
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
          pen.fillText(
            row.title < 0 ? "other tasks" : `subtopology ${row.title}: ${row.count} task${row.count === 1 ? "" : "s"}`,
            8,
            row.top + row.height / 2 - 0.5,
          );
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

    top(row, lane) {
      return lane === 0 ? row.top : row.top + row.active + 1 + (lane - 1) * (row.lane + 1);
    }

    drawRow(pen, row) {
      const { bars } = this.group;
      pen.fillStyle = this.look.faint;
      if (row.height > 6) pen.fillRect(this.left, row.top, this.width, row.active);
      for (const at of this.rowsOf[row.task]) {
        const lane = bars[at + 1];
        if (lane && !row.lane) continue;
        const x = this.x(this.edge(bars[at + 4])),
          end = this.x(this.edge(bars[at + 5] + 1));
        if (end < this.left || x > this.width) continue;
        this.drawn += 1;
        this.bar(pen, row, at, x, end);
      }
      pen.fillStyle = this.look.bad;
      for (const [first, last] of this.holes[row.task]) {
        const x = this.x(this.edge(first)),
          end = this.x(this.edge(last + 1));
        if (end - x > 1) pen.fillRect(x, row.top + row.active / 2 - 1, end - x, Math.min(2, row.active));
      }
      if (row.active >= 7)
        for (const generation of this.cold[row.task]) this.coldMark(pen, this.x(this.edge(generation)), row.top - 1);
    }

    bar(pen, row, at, x, end) {
      const { bars } = this.group;
      const lane = bars[at + 1],
        process = bars[at + 2],
        role = bars[at + 3];
      const gap = end - x > 4 && row.active > 6 ? 1 : 0;
      const width = Math.max(0.7, end - x - gap),
        top = this.top(row, lane),
        height = lane ? row.lane : row.active;
      const faded = this.marked.size && !this.marked.has(process);
      pen.globalAlpha = faded ? 0.12 : 1;
      if (role === WARMUP) this.stripes(pen, this.fills[process], x, top, width, height);
      else {
        if (role !== ACTIVE) pen.globalAlpha *= 0.6;
        pen.fillStyle = this.fills[process];
        pen.fillRect(x, top, width, height);
      }
      pen.globalAlpha = 1;
      if (lane === 0 && height >= 10 && !faded)
        this.caption(pen, process, Math.max(x, this.left), Math.min(end, this.width - 10), top + height / 2 + 0.5);
    }

    caption(pen, process, x, end, middle) {
      pen.font = `600 11px ${FONT}`;
      const number = String(process + 1),
        long = `${number}  ${nameOf(this.group.processes[process], this.group)}`;
      const text =
        pen.measureText(long).width + 12 < end - x ? long : pen.measureText(number).width + 5 < end - x ? number : "";
      if (!text) return;
      pen.fillStyle = this.inks[process];
      pen.textAlign = text === long ? "left" : "center";
      pen.fillText(text, text === long ? x + 6 : (x + end) / 2, middle);
      pen.textAlign = "left";
    }

    // Where rebalances were. Those too close to draw apart are left out: the strip above still shows them.
    lines(pen) {
      const { generations } = this.group;
      const room =
        (this.width - this.left) / Math.max(1, this.generationAt(this.range[1]) - this.generationAt(this.range[0]) + 1);
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
      const x = this.x(this.edge(this.cursor.generation)),
        end = this.x(this.edge(this.cursor.generation + 1));
      pen.fillStyle = this.look.ink;
      pen.globalAlpha = 0.08;
      pen.fillRect(x, 0, Math.max(2, end - x), this.height);
      pen.globalAlpha = 1;
    }

    frame(pen) {
      const { row, bar } = this.cursor,
        { bars } = this.group;
      pen.strokeStyle = this.look.ink;
      pen.lineWidth = 1.5;
      if (bar === undefined) return;
      const lane = bars[bar + 1],
        x = this.x(this.edge(bars[bar + 4])),
        end = this.x(this.edge(bars[bar + 5] + 1));
      pen.strokeRect(x, this.top(row, lane) - 0.5, Math.max(2, end - x - 1), (lane ? row.lane : row.active) + 1);
    }
  }

  return { Canvas, FIELDS, ACTIVE, STANDBY, WARMUP, COPY, HEAD };
})();
