package scenario

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limit is the limit of a figure, with its unit: 60ms, 12us, 12kB, 30%, 32000.
type Limit string

// units has the dimension and the size of each unit of a limit.
var units = map[string]struct {
	of  string
	one float64
}{
	"": {"count", 1}, "/s": {"count", 1}, "results/s": {"count", 1}, Per1000: {"count", 1}, "%": {"share", 1},
	"ns": {"time", 1e-9}, "us": {"time", 1e-6}, "µs": {"time", 1e-6}, "ms": {"time", 1e-3}, "s": {"time", 1}, "m": {"time", 60}, "h": {"time", 3600},
	"B": {"bytes", 1}, "kB": {"bytes", 1e3}, "MB": {"bytes", 1e6}, "GB": {"bytes", 1e9},
	"KiB": {"bytes", 1 << 10}, "MiB": {"bytes", 1 << 20}, "GiB": {"bytes", 1 << 30},
}

// In returns the limit in the unit of a figure (see Figures). The error has an example.
func (l Limit) In(unit string) (float64, error) {
	number, have, err := splitUnit(string(l))
	if err != nil {
		return 0, err
	}
	if number == 0 {
		return 0, fmt.Errorf("%s is never reached: write more, such as %s", l, example(unit))
	}
	from, to := units[have], units[unit]
	if from.of != to.of {
		return 0, fmt.Errorf("%s is no limit in %s: write %s", l, unit, example(unit))
	}
	return number * from.one / to.one, nil
}

// splitUnit reads a number and a known unit.
func splitUnit(text string) (number float64, unit string, err error) {
	end := len(text) - len(strings.TrimLeft(text, "0123456789.eE+"))
	unit = strings.TrimSpace(text[end:])
	number, err = strconv.ParseFloat(text[:end], 64)
	if _, known := units[unit]; err != nil || !known || number < 0 || math.IsInf(number, 0) {
		return 0, "", fmt.Errorf("%q is no limit: want a number with its unit, such as 60ms, 12us, 12kB, 30%% or 32000", text)
	}
	return number, unit, nil
}

// example returns a limit in a unit.
func example(unit string) string {
	switch units[unit].of {
	case "share":
		return "30%"
	case "time":
		return map[string]string{"µs": "12us", "ms": "60ms", "s": "30s"}[unit]
	case "bytes":
		return "12kB"
	}
	return "32000"
}

// UnmarshalJSON decodes a text or a number; In checks its unit.
func (l *Limit) UnmarshalJSON(data []byte) error {
	text := plain(data)
	*l = Limit(text)
	_, _, err := splitUnit(text)
	return err
}

// times multiplies a limit by a factor.
func (l Limit) times(factor float64) Limit {
	number, unit, err := splitUnit(string(l))
	if err != nil {
		return l
	}
	return Limit(strconv.FormatFloat(number*factor, 'f', -1, 64) + unit)
}

// Rate is a number per time, such as 10/s or 300/day, or a share of a class per time, such as 1%/min.
type Rate string

var spans = map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour, "day": 24 * time.Hour}

// PerSecond returns the rate in 1/s with so many agents; 0 for an empty rate.
func (r Rate) PerSecond(agents int) float64 {
	number, share, span, err := r.split()
	if err != nil {
		return 0
	}
	if share {
		number *= float64(agents) / 100
	}
	return number / span.Seconds()
}

// split splits a rate into its number, whether it is a share of a class, and its span of time.
func (r Rate) split() (number float64, share bool, span time.Duration, err error) {
	count, per, cut := strings.Cut(string(r), "/")
	count, share = strings.CutSuffix(strings.TrimSpace(count), "%")
	number, err = strconv.ParseFloat(count, 64)
	span = spans[strings.TrimSpace(per)]
	if !cut || err != nil || span == 0 || number < 0 || math.IsInf(number, 0) || math.IsNaN(number) {
		return 0, false, 0, fmt.Errorf("%q is no rate: want so many in a time, such as 10/s, 6/min, 5/h or 300/day, or a share of the class: 1%%/min", string(r))
	}
	return number, share, span, nil
}

// UnmarshalJSON decodes a rate.
func (r *Rate) UnmarshalJSON(data []byte) error {
	*r = Rate(plain(data))
	_, _, _, err := r.split()
	return err
}

// times multiplies a rate by a factor; a share of a class stays.
func (r Rate) times(factor float64) Rate {
	number, share, _, err := r.split()
	if err != nil || share {
		return r
	}
	_, per, _ := strings.Cut(string(r), "/")
	return Rate(strconv.FormatFloat(number*factor, 'g', 3, 64) + "/" + per)
}

// plain returns a text, or a number as written.
func plain(data []byte) string {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	return text
}
