"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const NS = "http://www.w3.org/2000/svg";
  const BOX = { op: [160, 42], group: [160, 46], in: [120, 20], out: [120, 20], bend: [12, 0] };
  const MAX_OPEN_OPERATORS = 2000; // a browser draws more of them too slowly
  const GAP = 22, ROW_GAP = 30, PAD = 14, HEADER = 26;
  const CLASSES = { compute: "multiply-accumulates", elementwise: "elementwise", movement: "moves data", other: "other" };
  const STATES = { kept: "--before", changed: "--movement", removed: "--bad", added: "--good" };

  /* Elements are made from text and attributes only, never from markup: names come from strangers. */
  function svg(tag, attributes, parent, text) {
    const element = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }
  function html(tag, parent, text) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }
  const count = (number) => number.toLocaleString("en-US");
  const short = (text, length) => (text.length > length ? text.slice(0, length - 1) + "\u2026" : text);

  const ending = (text, length) => (text.length > length ? "\u2026" + text.slice(1 - length) : text);

  /* ---- tables ---- */

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const cells = [...table.tBodies[0].rows].map((row) => row.cells[column]);
        const texts = cells.map((cell) => cell.dataset.value ?? cell.textContent.trim().replace(/%$/, ""));
        const numbers = texts.map((text) => (text === "-" ? -Infinity : Number(text.replace("inf", "Infinity"))));
        const keys = numbers.some(Number.isNaN) ? texts : numbers;
        const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && keys === texts);
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sign = up ? 1 : -1;
        const rows = cells.map((cell, i) => [keys[i], cell.parentElement]);
        rows.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  /* ---- graph: places ---- */

  const view = byId("graph-view"), details = byId("graph-details");
  const choice = byId("graph-choice"), colored = byId("graph-color");
  const graphs = [];
  data.sides.forEach((side, s) => side.graphs.forEach((graph, g) => {
    const name = side.graphs.length > 1 ? `${side.title}: ${graph.name}` : side.title;
    graphs.push({ side: s, number: g, graph, open: new Set(), total: graph.ops.reduce((sum, op) => sum + op.macs, 0) || 1 });
    html("option", choice, name).value = graphs.length - 1;
  }));
  if (graphs.length < 2) choice.parentElement.hidden = true;
  let current = graphs[0], root = null, canvas = null, nodes = [], zoom = { x: 0, y: 0, scale: 1 }, extent = [1, 1];

  /* Give each box of a group its place; open groups push the boxes beside and below them away. */
  function place(group) {
    const items = group.boxes.map(([kind, ref, layer, x]) => {
      const inner = kind === "group" && current.open.has(ref) ? place(current.graph.groups[ref]) : null;
      const [w, h] = inner ? [inner.w, inner.h] : BOX[kind];
      return { kind, ref, layer, x, w, h, inner };
    });
    const rows = [];
    for (const item of items) (rows[item.layer] ||= []).push(item);
    let y = HEADER;
    for (const row of rows) {
      row.sort((a, b) => a.x - b.x);
      const pivot = Math.max(0, row.findIndex((item) => item.inner));
      for (let i = pivot + 1; i < row.length; i++)
        row[i].x = Math.max(row[i].x, row[i - 1].x + (row[i - 1].w + row[i].w) / 2 + GAP);
      for (let i = pivot - 1; i >= 0; i--)
        row[i].x = Math.min(row[i].x, row[i + 1].x - (row[i + 1].w + row[i].w) / 2 - GAP);
      const height = Math.max(...row.map((item) => item.h));
      for (const item of row) Object.assign(item, { top: y, bottom: y + height, y: y + (height - item.h) / 2 });
      y += height + ROW_GAP;
    }
    const left = Math.min(0, ...items.map((item) => item.x - item.w / 2)) - PAD;
    const right = Math.max(0, ...items.map((item) => item.x + item.w / 2)) + PAD;
    for (const item of items) item.x -= left;
    return { items, edges: group.edges, w: right - left, h: y - ROW_GAP + PAD };
  }

  function curve(items, path) {
    const first = items[path[0]];
    let d = `M${first.x} ${first.y + first.h}V${first.bottom}`, x = first.x, y = first.bottom;
    for (const number of path.slice(1)) {
      const item = items[number], middle = (y + item.top) / 2;
      d += item.x === x ? `V${item.top}` : `C${x} ${middle} ${item.x} ${middle} ${item.x} ${item.top}`;
      const last = number === path[path.length - 1];
      y = last ? item.y : item.bottom;
      x = item.x;
      if (y !== item.top) d += `V${y}`;
    }
    return [d, x, y];
  }

  /* ---- graph: drawing ---- */

  const heats = {
    macs: (op) => op.macs, moved: (op) => op.read + op.constants + op.written,
    error: (op) => (op.error ? Math.min(20, Math.max(0, 16 + Math.log10(op.error))) : 0),
  };
  function painter() {
    const mode = colored.value, legend = byId("graph-legend");
    legend.textContent = "";
    const key = (color, text) => {
      const box = html("span", legend);
      box.className = "key";
      box.style.background = `var(${color})`;
      legend.append(text);
    };
    if (mode === "class") for (const [name, text] of Object.entries(CLASSES)) key("--" + name, text + " ");
    if (mode === "state") for (const [name, color] of Object.entries(STATES)) key(color, name + " ");
    if (!heats[mode]) {
      const color = (op) => (mode === "class" ? "--" + op.class : STATES[op.state] || "--line");
      return (ops) => {
        const colors = new Set(ops.map(color));
        return { color: colors.size === 1 ? [...colors][0] : "--line", heat: 0 };
      };
    }
    const total = (ops) => (mode === "error" ? Math.max(...ops.map(heats.error)) : ops.reduce((sum, op) => sum + heats[mode](op), 0));
    const top = Math.max(...current.graph.ops.map(heats[mode]), 1e-9);
    legend.textContent = mode === "error" ? "Stronger color: larger relative difference (logarithmic)." : "Stronger color: larger share.";
    return (ops) => ({ color: "--after", heat: Math.min(1, total(ops) / top) });
  }

  function render(focus) {
    const paint = painter();
    view.textContent = "";
    nodes = [];
    root = svg("svg", {}, view);
    canvas = svg("g", {}, root);
    const layout = place(current.graph.groups[0]);
    extent = [layout.w, layout.h];
    drawGroup(layout, canvas, paint);
    const chosen = nodes.find((node) => node.key === focus);
    if (nodes.length) (chosen || nodes[0]).element.setAttribute("tabindex", "0");
    apply();
    if (chosen) chosen.element.focus({ preventScroll: true });
  }

  function drawGroup(layout, parent, paint) {
    for (const [path, text] of layout.edges) {
      const [d, x, y] = curve(layout.items, path);
      svg("title", {}, svg("path", { class: "edge", d }, parent), text);
      svg("path", { class: "tip", d: `M${x - 3.5} ${y - 6}H${x + 3.5}L${x} ${y}Z` }, parent);
    }
    for (const item of layout.items) if (item.kind !== "bend") drawBox(item, parent, paint);
  }

  function drawBox(item, parent, paint) {
    const place = { transform: `translate(${item.x - item.w / 2} ${item.y})` };
    const size = { width: item.w, height: item.h, rx: 5 };
    if (item.kind === "in" || item.kind === "out") {
      const port = svg("g", place, parent);
      svg("rect", { ...size, rx: 10, class: "port" }, port);
      svg("title", {}, port, item.ref);
      svg("text", { class: "small", x: item.w / 2, y: 14, "text-anchor": "middle" }, port, ending(item.ref.slice(0, item.ref.lastIndexOf(": ")), 19));
      return;
    }
    const element = svg("g", { ...place, class: `node ${item.kind}`, tabindex: "-1" }, parent);
    const ops = item.kind === "op" ? [current.graph.ops[item.ref]] : current.graph.ops.slice(...current.graph.groups[item.ref].range);
    const node = { element, item, ops, key: `${item.kind}${item.ref}` };
    nodes.push(node);
    element.addEventListener("pointerenter", () => describe(node));
    element.addEventListener("focus", () => { describe(node); show(element); });
    if (item.inner) {
      svg("rect", { ...size, class: "frame" }, element);
      svg("rect", { width: item.w, height: HEADER - 4, class: "header" }, element).addEventListener("click", () => toggle(node));
      svg("text", { x: 8, y: 16 }, element, "\u25be " + short(current.graph.groups[item.ref].label, Math.max(12, item.w / 8)));
      drawGroup(item.inner, element, paint);
    } else {
      const { color, heat } = paint(ops);
      svg("rect", { ...size, class: "box" }, element);
      if (heat) svg("rect", { ...size, class: "heat", fill: `var(${color})`, "fill-opacity": 0.08 + 0.4 * heat }, element);
      const stripe = heats[colored.value] && !heat ? "--line" : color;
      svg("rect", { width: 5, height: item.h, rx: 2, fill: `var(${stripe})`, class: "heat" }, element);
      const group = item.kind === "group" ? current.graph.groups[item.ref] : null;
      const share = (100 * ops.reduce((sum, op) => sum + op.macs, 0)) / current.total;
      svg("text", { x: 12, y: 17 }, element, group ? "\u25b8 " + short(group.label, 17) : short(ops[0].kind, 19));
      svg("text", { class: heat ? "small on-heat" : "small", x: 12, y: 33 }, element,
        group ? `${ops.length} operators, ${share.toFixed(share < 10 ? 1 : 0)}% MACs` : short(ops[0].shape, 25));
      if (group) element.addEventListener("click", () => toggle(node));
    }
    element.setAttribute("role", item.kind === "group" ? "button" : "img");
    if (item.kind === "group") element.setAttribute("aria-expanded", String(Boolean(item.inner)));
    element.setAttribute("aria-label", item.kind === "group"
      ? `Group ${current.graph.groups[item.ref].label}, ${ops.length} operators` : `${ops[0].kind} ${ops[0].shape}`);
  }

  function describe(node) {
    details.textContent = "";
    const { ops, item } = node, facts = [];
    const sum = (field) => ops.reduce((total, op) => total + op[field], 0);
    const head = html("p", details), title = html("strong", head);
    if (item.kind === "group") {
      const group = current.graph.groups[item.ref];
      title.textContent = group.label;
      head.append(` (operators ${group.range[0]} to ${group.range[1] - 1})`);
      html("code", details, group.kinds);
    } else {
      title.textContent = ops[0].kind;
      head.append(` (operator ${item.ref})`);
      html("code", details, ops[0].text);
    }
    facts.push(["MACs", `${count(sum("macs"))} (${((100 * sum("macs")) / current.total).toFixed(1)}%)`]);
    facts.push(["activations read", count(sum("read")) + " bytes"], ["constants read", count(sum("constants")) + " bytes"]);
    facts.push(["written", count(sum("written")) + " bytes"]);
    const errors = ops.map((op) => op.error).filter((error) => error !== null);
    if (errors.length) facts.push(["relative difference", errors.some((error) => error >= 1e300) ? "infinite" : Math.max(...errors).toPrecision(3)]);
    const states = [...new Set(ops.map((op) => op.state).filter(Boolean))];
    if (states.length) facts.push(["change", states.join(", ")]);
    const authors = [...new Set(ops.map((op) => op.author).filter(Boolean))];
    if (authors.length) facts.push(["by pass", authors.join(", ")]);
    const list = html("dl", details);
    for (const [name, value] of facts) {
      const pair = html("div", list);
      html("dt", pair, name);
      html("dd", pair, value);
    }
  }

  /* ---- graph: zoom and movement ---- */

  function apply() { canvas.setAttribute("transform", `translate(${zoom.x} ${zoom.y}) scale(${zoom.scale})`); }
  function zoomBy(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.05, zoom.scale * factor)), real = scale / zoom.scale;
    zoom = { scale, x: x - (x - zoom.x) * real, y: y - (y - zoom.y) * real };
    apply();
  }
  function fit(smallest = 0) {
    const [w, h] = extent;
    const scale = Math.max(Math.min(view.clientWidth / w, view.clientHeight / h, 1.25), smallest);
    zoom = { scale, x: (view.clientWidth - w * scale) / 2, y: Math.max(0, (view.clientHeight - h * scale) / 2) };
    apply();
  }
  /* Move the drawing until the element is inside of the view. */
  function show(element) {
    const box = element.getBoundingClientRect(), frame = view.getBoundingClientRect();
    const shift = (low, high, start, end) => {
      if (high - low > end - start - 20) return start + 10 - low > 0 || high < start + 60 ? start + 10 - low : 0;
      return low < start + 10 ? start + 10 - low : high > end - 10 ? end - 10 - high : 0;
    };
    zoom.x += shift(box.left, box.right, frame.left, frame.right);
    zoom.y += shift(box.top, box.bottom, frame.top, frame.bottom);
    apply();
  }
  function toggle(node) {
    const before = node.element.getBoundingClientRect();
    const { ref } = node.item;
    if (!current.open.delete(ref)) current.open.add(ref);
    render(node.key);
    const after = nodes.find((other) => other.key === node.key).element.getBoundingClientRect();
    zoom.x += before.left + before.width / 2 - after.left - after.width / 2;
    zoom.y += before.top - after.top;
    apply();
  }
  function choose(number) {
    current = graphs[number];
    choice.value = number;
    byId("open-all").disabled = current.graph.ops.length > MAX_OPEN_OPERATORS;
    render();
    fit(0.55);
  }
  function groupsAbove(op) {
    return current.graph.groups.flatMap((group, i) => (i && group.range[0] <= op && op < group.range[1] ? [i] : []));
  }
  function reveal(number, op) {
    if (graphs[number] !== current) choose(number);
    groupsAbove(op).forEach((group) => current.open.add(group));
    render();
    if (zoom.scale < 0.7) zoomBy(0.9 / zoom.scale);
    const node = nodes.find((other) => other.key === `op${op}`);
    nodes.forEach((other) => other.element.setAttribute("tabindex", other === node ? "0" : "-1"));
    show(node.element);
    node.element.focus({ preventScroll: true });
  }

  const pointers = new Map();
  let moved = 0;
  view.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    moved = 0;
  });
  view.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const others = [...pointers.values()].filter((other) => other.pointerId !== event.pointerId);
    if (others.length) {
      const [other] = others, frame = view.getBoundingClientRect();
      const distance = (e) => Math.hypot(e.clientX - other.clientX, e.clientY - other.clientY) || 1;
      zoomBy(distance(event) / distance(last), (event.clientX + other.clientX) / 2 - frame.left, (event.clientY + other.clientY) / 2 - frame.top);
    } else {
      zoom.x += event.clientX - last.clientX;
      zoom.y += event.clientY - last.clientY;
      moved += Math.abs(event.clientX - last.clientX) + Math.abs(event.clientY - last.clientY);
      if (moved > 4) root.classList.add("moving");
      apply();
    }
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    root.classList.remove("moving");
  });
  view.addEventListener("click", (event) => { if (moved > 4) event.stopPropagation(); }, true);
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const frame = view.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
  }, { passive: false });
  view.addEventListener("keydown", (event) => {
    const at = nodes.findIndex((node) => node.element === document.activeElement);
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.shiftKey && move) {
      const axis = event.key === "ArrowLeft" || event.key === "ArrowRight" ? "x" : "y";
      zoom[axis] -= 60 * move;
      apply();
    } else if (move && nodes.length) {
      const next = nodes[Math.min(nodes.length - 1, Math.max(0, at < 0 ? 0 : at + move))];
      nodes.forEach((node) => node.element.setAttribute("tabindex", node === next ? "0" : "-1"));
      next.element.focus({ preventScroll: true });
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0 && nodes[at].item.kind === "group") toggle(nodes[at]);
    else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });

  byId("zoom-in").addEventListener("click", () => zoomBy(1.25));
  byId("zoom-out").addEventListener("click", () => zoomBy(0.8));
  byId("zoom-fit").addEventListener("click", () => fit());
  byId("open-all").addEventListener("click", () => {
    current.graph.groups.forEach((_, i) => i && current.open.add(i));
    render();
    fit(0.3);
  });
  byId("fold-all").addEventListener("click", () => {
    current.open.clear();
    render();
    fit(0.55);
  });
  choice.addEventListener("change", () => choose(Number(choice.value)));
  colored.addEventListener("change", () => render());
  let found = -1;
  byId("graph-find").addEventListener("input", () => { found = -1; });
  byId("graph-find").addEventListener("keydown", (event) => {
    const word = event.target.value.toLowerCase(), { ops } = current.graph;
    if (event.key !== "Enter" || !word) return;
    for (let step = 1; step <= ops.length; step++) {
      const i = (found + step) % ops.length;
      if (!`${ops[i].kind} ${ops[i].name}`.toLowerCase().includes(word)) continue;
      found = i;
      reveal(graphs.indexOf(current), i);
      event.target.focus({ preventScroll: true });
      return;
    }
    details.textContent = "";
    html("p", details, "No operator of this graph has that in its name or kind.");
  });
  for (const button of document.querySelectorAll("button.show")) button.addEventListener("click", () => {
    const { side, graph, op } = button.dataset;
    byId("graph").scrollIntoView();
    reveal(graphs.findIndex((item) => item.side === Number(side) && item.number === Number(graph)), Number(op));
  });

  /* ---- memory ---- */

  const chart = byId("arena-chart"), cursor = byId("arena-cursor"), note = byId("arena-details");
  const steps = Math.max(...data.sides.map((side) => side.live.length));
  let position = -1;
  function point(share) {
    share = Math.min(0.999999, Math.max(0, share));
    cursor.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, 1000 * share);
    note.textContent = "";
    for (const side of data.sides) {
      const at = Math.floor(share * side.live.length), op = side.graphs[0].ops[at];
      if (op) html("div", note, `${side.title}: ${count(side.live[at])} bytes at operator ${at}, ${op.kind} ${short(op.name, 60)}`);
    }
  }
  chart.addEventListener("pointermove", (event) => {
    const frame = chart.getBoundingClientRect();
    position = Math.floor(((event.clientX - frame.left) / frame.width) * steps);
    point((event.clientX - frame.left) / frame.width);
  });
  chart.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    position = Math.min(steps - 1, Math.max(0, position + move));
    point((position + 0.5) / steps);
  });

  addEventListener("beforeprint", () => fit());
  choose(0);
})();
