"""Line charts as SVG, with nothing but the standard library."""

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM, INSET = 76, 24, 70, 56, 36
COLOURS = ["#1f6feb", "#d1242f", "#1a7f37", "#8250df"]
FONT = "font-family='system-ui, Helvetica, Arial, sans-serif'"


@dataclass
class Line:
    name: str
    points: list  # of (x, y)


class Axis:
    """Values to places on a line."""

    def __init__(self, values, first, last, logarithmic):
        self.first, self.last, self.logarithmic = first, last, logarithmic
        if logarithmic:
            self.low = math.floor(math.log10(min(values)) + 1e-9)
            self.high = max(math.ceil(math.log10(max(values)) - 1e-9), self.low + 1)
            self.ticks = [10 ** power for power in range(self.low, self.high + 1)]
        else:
            step = nice_step(max(values))
            self.low, self.high = 0, step * math.ceil(max(values) * 1.05 / step)
            self.ticks = [step * i for i in range(round(self.high / step) + 1)]

    def place(self, value):
        value = math.log10(value) if self.logarithmic else value
        return self.first + (value - self.low) / (self.high - self.low) * (self.last - self.first)


def nice_step(most):
    """Of 1, 2 and 5 the one that makes about five ticks."""
    rough = most / 5 or 1
    power = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if rough <= power * factor)


def text_of(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def draw(path, title, x_name, y_name, lines, logarithmic=False):
    """Draws lines; both axes are logarithmic or none. A linear axis begins at zero."""
    points = [point for line in lines for point in line.points]
    x_axis = Axis([x for x, _ in points], LEFT + INSET, WIDTH - RIGHT - INSET, logarithmic)
    if not x_axis.logarithmic:
        x_axis.ticks = sorted({x for x, _ in points})
    y_axis = Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, logarithmic)
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' {FONT} font-size='12'>",
             f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>", text(LEFT, 24, title, "start", size=16, colour="#1f2328")]
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts += [f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - RIGHT}' y2='{y:.1f}' stroke='#e4e7eb'/>", text(LEFT - 8, y + 4, text_of(tick), "end")]
    for tick in x_axis.ticks:
        x = x_axis.place(tick)
        parts += [f"<line x1='{x:.1f}' y1='{HEIGHT - BOTTOM}' x2='{x:.1f}' y2='{HEIGHT - BOTTOM + 5}' stroke='#57606a'/>",
                  text(x, HEIGHT - BOTTOM + 20, text_of(tick), "middle")]
    parts.append(f"<path d='M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}' fill='none' stroke='#57606a'/>")
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x_name, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(text(18, middle, y_name, "middle", turned=True))
    values = []
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        places = [(x_axis.place(x), y_axis.place(y), y) for x, y in line.points]
        parts.append(f"<polyline points='{' '.join(f'{x:.1f},{y:.1f}' for x, y, _ in places)}' fill='none' stroke='{colour}' stroke-width='2'/>")
        for place, (x, y, value) in enumerate(places):
            # The value of the highest line stands above its point, those of the others below theirs.
            highest = all(place >= len(other.points) or value >= other.points[place][1] for other in lines)
            above = highest or y + 20 > HEIGHT - BOTTOM - 4  # where below would be on the axis
            values.append(text(x, y + (-10 if above else 20), text_of(value), "middle", colour=colour, halo=True))
            parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{colour}'/>")
        if len(lines) > 1:
            x = LEFT + 190 * number
            parts += [f"<line x1='{x}' y1='46' x2='{x + 22}' y2='46' stroke='{colour}' stroke-width='2'/>", text(x + 28, 50, line.name, "start")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, *values, "</svg>"]) + "\n")


def text(x, y, words, anchor, size=12, colour="#57606a", turned=False, halo=False):
    turn = f" transform='rotate(-90 {x:.1f} {y:.1f})'" if turned else ""
    outline = " stroke='#ffffff' stroke-width='4' stroke-linejoin='round' paint-order='stroke'" if halo else ""
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' fill='{colour}'{outline}{turn}>{escape(words)}</text>"
