// Package number formats figures of load runs for people: with three digits, thousands apart, and their units.
package number

import (
	"math"
	"strconv"
	"strings"
)

// Count returns a whole number with its thousands apart: 1,234,567.
func Count[N int | int64 | uint64 | float64](n N) string {
	text := strconv.FormatFloat(math.Round(float64(n)), 'f', 0, 64)
	sign, digits := "", strings.TrimPrefix(text, "-")
	if digits != text && digits != "0" {
		sign = "-"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Of returns a number of things: 1 place, 5 places.
func Of[N int | int64 | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(n) + " " + thing + "s"
}

// Three returns three digits, or all before the point: 0.190, 1.24, 24.4, 16,000.
func Three(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case a >= 99.95:
		return Count(v)
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
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Round returns at most so many digits after the point, without zeros at the end.
func Round(v float64, digits int) string {
	if text := strip(strconv.FormatFloat(v, 'f', digits, 64)); text != "-0" {
		return text
	}
	return "0"
}

// Bare leaves out the zeros at the end of a formatted number, before its unit: 20 ms for 20.0 ms.
func Bare(text string) string {
	number, unit, spaced := strings.Cut(text, " ")
	if number = strip(number); spaced {
		return number + " " + unit
	}
	return number
}

// strip removes zeros at the end of a decimal fraction.
func strip(text string) string {
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Short formats a number for axes: 0, 500, 16k, 1.5M.
func Short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return Round(v/1e9, 2) + "G"
	case a >= 1e6:
		return Round(v/1e6, 2) + "M"
	case a >= 1e4:
		return Round(v/1e3, 2) + "k"
	case a >= 1e3:
		return Count(v)
	}
	return Bare(Three(v))
}

// Millis formats a time in milliseconds: 52.3 µs, 3.80 ms, 14.4 s.
func Millis(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0 ms"
	case a < 0.1:
		return Three(v*1000) + " µs"
	case a < 1000:
		return Three(v) + " ms"
	}
	return Seconds(v / 1000)
}

// Seconds formats a time in seconds: 747 ms, 2.60 s, 10.0 min, 2.00 h.
func Seconds(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0 s"
	case a < 1:
		return Millis(v * 1000)
	case a < 120:
		return Three(v) + " s"
	case a < 2*3600:
		return Three(v/60) + " min"
	}
	return Three(v/3600) + " h"
}

// Bytes formats an amount of bytes by thousands: 25.2 kB.
func Bytes(v float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; math.Abs(v) >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	if i == 0 {
		return Round(v, 0) + " " + units[0]
	}
	return Three(v) + " " + units[i]
}

// Percent formats a share of one: 5 %.
func Percent(v float64) string { return Bare(Three(100*v)) + " %" }

// Rate formats a number per second: 32,000, 8.3.
func Rate(v float64) string {
	if v >= 10 || v == 0 {
		return Count(v)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// In formats a value in the unit of a figure (scenario.Figure): 24.4 ms, 12.0 µs, 98 %.
func In(v float64, unit string) string {
	switch {
	case unit == "ms":
		return Millis(v)
	case unit == "s":
		return Seconds(v)
	case unit == "%":
		return Percent(v / 100)
	case unit == "MB":
		return Bytes(v * 1e6)
	case unit == "":
		return Three(v)
	}
	return Three(v) + " " + unit
}
