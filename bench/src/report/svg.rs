//! Line plots as inline SVG: no script, no font, no address.

use std::fmt::Write as _;

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;
/// Told apart by people who see few colours, too (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// A line of points (x, y).
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Series {
    pub fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series { name: name.to_owned(), points: points.into_iter().collect() }
    }
}

/// How a plot is scaled and named.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    /// Powers of ten on the y axis; what is not above zero is left out.
    pub log: bool,
    /// A grey band from 0 to here on the x axis: the warm-up.
    pub grey_to: f64,
}

/// A figure with a legend; nothing when there is nothing to draw.
pub fn plot(frame: Frame<'_>, series: &[Series]) -> String {
    let kept: Vec<Series> = series
        .iter()
        .map(|one| Series {
            name: one.name.clone(),
            points: one
                .points
                .iter()
                .copied()
                .filter(|(x, y)| x.is_finite() && y.is_finite() && (!frame.log || *y > 0.0))
                .collect(),
        })
        .filter(|one| !one.points.is_empty())
        .collect();
    if kept.is_empty() {
        return String::new();
    }
    let scale = Scale::new(frame, &kept);
    let mut out = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{}\">",
        text(frame.title),
        text(frame.title)
    );
    if frame.grey_to > 0.0 {
        let width = scale.x(frame.grey_to).min(WIDTH - RIGHT) - LEFT;
        let height = HEIGHT - TOP - BOTTOM;
        let _ = write!(
            out,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\" fill=\"#eee\"/>"
        );
    }
    out += &scale.axes(frame);
    for (one, colour) in kept.iter().zip(COLOURS.iter().cycle()) {
        let mut path = String::new();
        for (x, y) in &one.points {
            let _ = write!(path, "{:.1},{:.1} ", scale.x(*x), scale.y(*y));
        }
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            path.trim_end()
        );
    }
    out += "</svg><p class=\"legend\">";
    for (one, colour) in kept.iter().zip(COLOURS.iter().cycle()) {
        let _ = write!(out, "<span style=\"color:{colour}\">&#9632; {}</span> ", text(&one.name));
    }
    out + "</p></figure>"
}

struct Scale {
    x_max: f64,
    /// Already as logarithms when the axis is one.
    y_min: f64,
    y_max: f64,
    log: bool,
}

impl Scale {
    fn new(frame: Frame<'_>, series: &[Series]) -> Scale {
        let points = || series.iter().flat_map(|one| &one.points);
        let x_max = points().map(|(x, _)| *x).fold(0.0, f64::max);
        let (least, most) = points()
            .map(|(_, y)| *y)
            .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), y| (least.min(y), most.max(y)));
        let (y_min, y_max) = if frame.log {
            (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0))
        } else {
            (0.0, nice(most))
        };
        Scale { x_max: x_max.max(f64::MIN_POSITIVE), y_min, y_max, log: frame.log }
    }

    fn x(&self, x: f64) -> f64 {
        LEFT + x / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        let y = if self.log { y.log10() } else { y };
        let share = (y - self.y_min) / (self.y_max - self.y_min);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, frame: Frame<'_>) -> String {
        let mut out = String::new();
        let mut tick = |value: f64| {
            let y = self.y(value);
            let _ = write!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ccc\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 5.0,
                y + 4.0,
                short(value)
            );
        };
        if self.log {
            let (from, to) = (self.y_min as i32, self.y_max as i32);
            (from..=to).for_each(|power| tick(10f64.powi(power)));
        } else {
            (0..=4).for_each(|step| tick(self.y_max * f64::from(step) / 4.0));
        }
        for step in 0..=5 {
            let value = self.x_max * f64::from(step) / 5.0;
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.x(value),
                HEIGHT - BOTTOM + 14.0,
                short(value)
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text x=\"12\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {:.1})\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 3.0,
            text(frame.x),
            HEIGHT / 2.0,
            HEIGHT / 2.0,
            text(frame.y)
        );
        out
    }
}

/// The next round number from `value` on.
fn nice(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.2, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        size if size >= 1e9 => trimmed(value / 1e9) + "G",
        size if size >= 1e6 => trimmed(value / 1e6) + "M",
        size if size >= 1e4 => trimmed(value / 1e3) + "k",
        _ => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text for a page.
pub fn text(raw: &str) -> String {
    raw.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame<'_> =
        Frame { title: "a <b>", x: "seconds", y: "ms", log: true, grey_to: 1.0 };

    #[test]
    fn every_point_lies_inside_and_titles_are_harmless() {
        let lines = [
            Series::new("one", (1..50).map(|x| (f64::from(x), f64::from(x * x)))),
            Series::new("none", [(1.0, f64::NAN), (2.0, 0.0)]),
        ];
        for log in [true, false] {
            let drawn = plot(Frame { log, ..FRAME }, &lines[..1]);
            assert!(drawn.contains("a &lt;b&gt;") && !drawn.contains("<b>"));
            let points = drawn.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{point}");
            }
        }
        assert_eq!(plot(FRAME, &lines[1..]), "", "nothing to draw");
    }

    #[test]
    fn round_numbers_are_round() {
        assert_eq!((nice(0.0), nice(97.0), nice(1_234.0)), (1.0, 100.0, 1_600.0));
        assert_eq!(
            (short(1_500_000.0), short(0.25), short(25_000.0)),
            ("1.5M".into(), "0.25".into(), "25k".into())
        );
    }
}
