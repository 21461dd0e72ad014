package measure

import (
	"bytes"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Parse parses an output in one of model.MetricFormats. It adds tags to the tags of each
// value, which win over them. cut means that the end of the output is missing: Parse skips
// the last line or word, which may be half a number. bad counts the entries of other form and
// the values beyond model.MaxValues.
func Parse(format string, output []byte, cut bool, tags map[string]string) (values []model.Value, bad int) {
	s := &scan{tags: tags}
	if format == "nagios" {
		s.nagios(complete(output, cut, " \n"))
		return s.values, s.bad
	}
	line := map[string]func(*scan, string) bool{
		"graphite": (*scan).graphite, "influxdb": (*scan).influxdb, "opentsdb": (*scan).opentsdb, "prometheus": (*scan).prometheus,
	}[format]
	if line == nil {
		return nil, 0
	}
	for text := range bytes.Lines(complete(output, cut, "\n")) {
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' && !line(s, string(text)) {
			s.bad++
		}
	}
	return s.values, s.bad
}

// complete returns the output up to the last of ends that precedes the cut.
func complete(output []byte, cut bool, ends string) []byte {
	if !cut {
		return output
	}
	if mark := bytes.LastIndex(output, []byte("… [cut ")); mark >= 0 {
		output = output[:mark]
	}
	return output[:bytes.LastIndexAny(output, ends)+1]
}

// scan collects values.
type scan struct {
	tags   map[string]string
	values []model.Value
	bad    int
}

// add appends a value. It returns false for an invalid value and for one beyond model.MaxValues.
func (s *scan) add(name string, value float64, at time.Time, own map[string]string) bool {
	if len(s.values) == model.MaxValues {
		return false
	}
	v, ok := Value(name, value, at, own, s.tags)
	if ok {
		s.values = append(s.values, v)
	}
	return ok
}

// Value returns a value with its own tags, which win over the others. ok is false for NaN,
// infinity and names or tags beyond the limits of the protocol.
func Value(name string, value float64, at time.Time, own, others map[string]string) (v model.Value, ok bool) {
	if name == "" || len(name) > maxText || math.IsNaN(value) || math.IsInf(value, 0) {
		return v, false
	}
	for k, v := range own {
		if k == "" || len(k) > maxText || len(v) > maxText {
			return model.Value{}, false
		}
	}
	tags := maps.Clone(others)
	if tags == nil {
		tags = own
	} else {
		maps.Copy(tags, own)
	}
	if len(tags) > model.MaxValueTags {
		return model.Value{}, false
	}
	return model.Value{Name: name, Tags: tags, Value: value, At: at}, true
}

// maxText limits names and tags, in bytes, as the protocol does.
const maxText = 255

// clock parses a time in units since 1970, perSecond to a second. A number outside of the years
// 1970 to 6429, such as -1, is the zero time: the value then has the time of the run.
func clock(text string, perSecond float64) (at time.Time, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return time.Time{}, false
	}
	ms := n / perSecond * 1000
	if ms <= 0 || ms > 1<<47 {
		return time.Time{}, true
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}
