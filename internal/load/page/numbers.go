package page

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// nb stands between a number and its unit: a space that does not break.
const nb = "\u00a0"

// count is a whole number with commas: 1,234,567.
func count(v float64) string {
	text := strconv.FormatFloat(math.Abs(math.Round(v)), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if math.Round(v) < 0 {
		text = "−" + text
	}
	return text
}

// figures shows three digits: 0.190, 1.24, 24.4, 538, 16,000.
func figures(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case a >= 99.95:
		return count(v)
	case a < 0.001:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	digits := 2
	for ; a < 1; a *= 10 {
		digits++
	}
	for ; a >= 9.995; a /= 10 {
		digits--
	}
	return strings.Replace(strconv.FormatFloat(v, 'f', digits, 64), "-", "−", 1)
}

// little is a share in a sentence: one of no matter is not told to its last digit.
func little(v float64) string {
	if v > 0 && v < 0.0001 {
		return "less than 0.01" + nb + "%"
	}
	return percent(v)
}

// bare leaves out the noughts at the end of a figure, for axes and whole numbers.
func bare(f func(float64) string) func(float64) string {
	return func(v float64) string {
		text := f(v)
		number, unit, spaced := strings.Cut(text, nb)
		if strings.Contains(number, ".") {
			number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
		}
		if spaced {
			return number + nb + unit
		}
		return number
	}
}

// trim rounds to digits behind the point, without noughts at the end.
func trim(v float64, digits int) string {
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return strings.Replace(text, "-", "−", 1)
}

// short is for axes: 0, 500, 16k, 1.5M.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return trim(v/1e9, 2) + "G"
	case a >= 1e6:
		return trim(v/1e6, 2) + "M"
	case a >= 1e4:
		return trim(v/1e3, 2) + "k"
	case a >= 1e3:
		return count(v)
	}
	return trim(v, 3)
}

// millis is a time given in milliseconds.
func millis(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0" + nb + "ms"
	case a < 0.1:
		return figures(v*1000) + nb + "µs"
	case a < 1000:
		return figures(v) + nb + "ms"
	}
	return seconds(v / 1000)
}

// seconds is a time given in seconds; shorter ones in milliseconds.
func seconds(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0" + nb + "s"
	case a < 1:
		return millis(v * 1000)
	case a < 120:
		return figures(v) + nb + "s"
	case a < 2*3600:
		return figures(v/60) + nb + "min"
	}
	return figures(v/3600) + nb + "h"
}

// span is how long something lasted: 58 s, 2 min 14 s, 1 h 5 min.
func span(v float64) string {
	d := time.Duration(math.Round(v)) * time.Second
	two := func(n int64, unit string, rest int64, small string) string {
		if rest == 0 {
			return count(float64(n)) + nb + unit
		}
		return count(float64(n)) + nb + unit + nb + count(float64(rest)) + nb + small
	}
	switch {
	case v < 10:
		return bare(seconds)(v)
	case d < 2*time.Minute:
		return count(d.Seconds()) + nb + "s"
	case d < 2*time.Hour:
		return two(int64(d.Minutes()), "min", int64(d.Seconds())%60, "s")
	}
	return two(int64(d.Hours()), "h", int64(d.Minutes())%60, "min")
}

// clockFrom is from how many seconds on a moment is told in minutes.
const clockFrom = 240

// clock is a moment of the run.
func clock(v float64) string {
	if math.Abs(v) < clockFrom {
		return trim(v, 1) + nb + "s"
	}
	return minutes(v)
}

// minutes is a moment of a long run: 1:30.
func minutes(v float64) string {
	d := time.Duration(math.Abs(v) * float64(time.Second)).Round(time.Second)
	text := strconv.Itoa(int(d.Minutes())%60) + ":" + pad(int(d.Seconds())%60)
	if d >= time.Hour {
		text = strconv.Itoa(int(d.Hours())) + ":" + pad(int(d.Minutes())%60) + ":" + pad(int(d.Seconds())%60)
	}
	if v < 0 {
		text = "−" + text
	}
	return text
}

func pad(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// size is an amount of bytes, by thousands.
func size(v float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for math.Abs(v) >= 1000 && i < len(units)-1 {
		v /= 1000
		i++
	}
	if i == 0 {
		return trim(v, 0) + nb + units[i]
	}
	return figures(v) + nb + units[i]
}

// percent is a share of one.
func percent(v float64) string { return bare(figures)(100*v) + nb + "%" }

// hundredths is for cores.
func hundredths(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
