package sensuwire

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Point is one value of an event's metrics.
type Point struct {
	Name  string
	Value float64
	Time  int64 // since 1970: see At
	Tags  map[string]string
}

// At is when it was measured. Agents and who posts to them count seconds, milliseconds,
// microseconds or nanoseconds: what lies within a few thousand years is meant.
func (p *Point) At() time.Time {
	switch n := p.Time; {
	case n <= 0:
		return time.Time{}
	case n < 1e11:
		return time.Unix(n, 0).UTC()
	case n < 1e14:
		return time.UnixMilli(n).UTC()
	case n < 1e17:
		return time.UnixMicro(n).UTC()
	default:
		return time.Unix(0, n).UTC()
	}
}

// appendPoints is a Metrics.
func (e *Event) appendPoints(b []byte) []byte {
	for _, name := range e.Handlers {
		b = appendText(b, 1, name)
	}
	for i := range e.Points {
		p := &e.Points[i]
		b = appendMessage(b, 2, func(b []byte) []byte {
			b = protowire.AppendFixed64(protowire.AppendTag(appendText(b, 1, p.Name), 2, protowire.Fixed64Type), math.Float64bits(p.Value))
			b = appendInt(b, 3, p.Time)
			for _, k := range slices.Sorted(maps.Keys(p.Tags)) {
				b = appendMessage(b, 4, func(b []byte) []byte { return appendText(appendText(b, 1, k), 2, p.Tags[k]) })
			}
			return b
		})
	}
	return b
}

// ReadPoints implements Codec.
func (Protobuf) ReadPoints(s *Said, f func(*Point)) error {
	for rest := s.points; len(rest) > 0; {
		g, _, content, after, ok := next(rest)
		if !ok {
			return unreadable("metrics")
		}
		rest = after
		if g != 2<<3|ofBytes {
			continue
		}
		var p Point
		if !p.readProto(content) {
			return unreadable("a point")
		}
		f(&p)
	}
	return nil
}

func (p *Point) readProto(message []byte) bool {
	for rest := message; len(rest) > 0; {
		f, number, content, after, ok := next(rest)
		rest = after
		switch f {
		case 1<<3 | ofBytes:
			p.Name = string(content)
		case 2<<3 | ofFixed64:
			p.Value = math.Float64frombits(number)
		case 3<<3 | ofVarint:
			p.Time = int64(number)
		case 4<<3 | ofBytes:
			ok = ok && readPair(content, &p.Tags)
		}
		if !ok {
			return false
		}
	}
	return true
}

type jsonTag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (e *Event) metricsJSON() any {
	list := make([]any, len(e.Points))
	for i := range e.Points {
		p, tags := &e.Points[i], []jsonTag{}
		for _, k := range slices.Sorted(maps.Keys(p.Tags)) {
			tags = append(tags, jsonTag{k, p.Tags[k]})
		}
		list[i] = map[string]any{"name": p.Name, "value": p.Value, "timestamp": p.Time, "tags": tags}
	}
	return map[string]any{"handlers": e.Handlers, "points": list}
}

// ReadMetricHandlers implements Codec.
func (Protobuf) ReadMetricHandlers(s *Said) (names []string, err error) {
	for rest := s.points; len(rest) > 0; {
		g, _, content, after, ok := next(rest)
		if !ok {
			return nil, unreadable("metrics")
		}
		rest = after
		if g == 1<<3|ofBytes {
			names = addItem(names, string(content))
		}
	}
	return names, nil
}

// ReadMetricHandlers implements Codec.
func (JSON) ReadMetricHandlers(s *Said) (names []string, err error) {
	if s.points == nil {
		return nil, nil
	}
	ok := members(s.points, func(key, value []byte) bool {
		return string(key) != "handlers" || string(value) == "null" || elements(value, func(value []byte) bool {
			names = addItem(names, stringOf(value))
			return true
		})
	})
	if !ok {
		return nil, notJSON("metrics")
	}
	return names, nil
}

// ReadPoints implements Codec.
func (JSON) ReadPoints(s *Said, f func(*Point)) error {
	if s.points == nil {
		return nil
	}
	ok := members(s.points, func(key, value []byte) bool {
		return string(key) != "points" || elements(value, func(value []byte) bool {
			var p Point
			if !p.readJSON(value) {
				return false
			}
			f(&p)
			return true
		})
	})
	if !ok {
		return notJSON("metrics")
	}
	return nil
}

func (p *Point) readJSON(object []byte) bool {
	return members(object, func(key, value []byte) bool {
		switch string(key) {
		case "name":
			p.Name = stringOf(value)
		case "value":
			var err error
			if p.Value, err = strconv.ParseFloat(string(value), 64); err != nil {
				p.Value = math.NaN()
			}
		case "timestamp":
			p.Time = integer(value)
		case "tags":
			return elements(value, p.readTagJSON)
		}
		return true
	})
}

func (p *Point) readTagJSON(object []byte) bool {
	var name, value string
	ok := members(object, func(key, v []byte) bool {
		switch string(key) {
		case "name":
			name = stringOf(v)
		case "value":
			value = stringOf(v)
		}
		return true
	})
	if p.Tags == nil {
		p.Tags = map[string]string{}
	}
	if len(p.Tags) < maxItems {
		p.Tags[name] = value
	}
	return ok
}
