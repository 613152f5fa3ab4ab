// Numbers with their units.

const SPACE = "\u00a0";

const rounded = (value) => {
  if (value === 0) return "0";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
};

/** Milliseconds as a time. */
export const time = (ms) => {
  if (ms == null) return "–";
  if (ms === 0) return "0" + SPACE + "ms";
  if (ms < 1) return rounded(ms * 1000) + SPACE + "µs";
  if (ms < 1000) return rounded(ms) + SPACE + "ms";
  if (ms < 120_000) return rounded(ms / 1000) + SPACE + "s";
  return rounded(ms / 60_000) + SPACE + "min";
};

/** A rate. */
export const rate = (perSecond) => (perSecond > 0 && perSecond < 0.01 ? "<0.01" : rounded(perSecond)) + SPACE + "/s";

/** A count. */
export const count = (number) => number.toLocaleString("en");

/** Part of a whole, in per cent. */
export const percent = (part, whole) => (whole > 0 ? rounded((100 * part) / whole) : "0") + SPACE + "%";

/** Bytes. */
export const bytes = (number) => {
  const units = ["B", "KB", "MB", "GB"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) {
    number /= 1000;
    at += 1;
  }
  return rounded(number) + SPACE + units[at];
};

/** A time span in seconds, roughly. */
export const age = (seconds) => {
  const parts = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = Math.max(0, parts.findIndex(([, length]) => seconds >= length));
  const from = seconds < 1 ? 3 : at;
  const [unit, length] = parts[from];
  const first = Math.floor(seconds / length);
  const rest = parts[from + 1];
  const second = rest ? Math.floor((seconds - first * length) / rest[1]) : 0;
  return first + SPACE + unit + (second > 0 ? " " + second + SPACE + rest[0] : "");
};

/** The time of a day, of seconds since 1970. */
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

/** The time of a day without its seconds. */
export const minute = (seconds) => clock(seconds).slice(0, 5);

/** A number of a vector. */
export const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 4 });

/** A similarity. */
export const similarity = (value) => Number(value).toFixed(3);
