package measure

import (
	"bytes"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Parse reads an output in one of model.MetricFormats; tags are added to those that each
// value has by itself, which win. cut says that the end of the output is missing: what may
// be half a number is passed over. bad counts what is not of the form, and what is beyond
// model.MaxValues.
func Parse(format string, output []byte, cut bool, tags map[string]string) (values []model.Value, bad int) {
	s := &scan{tags: tags}
	if format == "nagios" {
		s.nagios(whole(output, cut, " \n"))
		return s.values, s.bad
	}
	line := map[string]func(*scan, string) bool{
		"graphite": (*scan).graphite, "influxdb": (*scan).influxdb, "opentsdb": (*scan).opentsdb, "prometheus": (*scan).prometheus,
	}[format]
	if line == nil {
		return nil, 0
	}
	for text := range bytes.Lines(whole(output, cut, "\n")) {
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '#' && !line(s, string(text)) {
			s.bad++
		}
	}
	return s.values, s.bad
}

// whole is an output up to the last thing that is there for certain.
func whole(output []byte, cut bool, ends string) []byte {
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

// add takes a value; false: it is none, or there is no room for it.
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

// Value is one value with its own tags, which win over the others; not ok: it is none, or is
// beyond what the protocol takes.
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

// maxText bounds names and tags, in bytes: what the protocol takes.
const maxText = 255

// clock reads a time that counts so many units in a second from 1970 on; -1 and what makes
// no sense is none: then the value is of when the check ran.
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
