package sensuwire

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/muster-fleet/muster/internal/model"
)

// ReceivedEvent is an event from a Sensu agent in the server, decoded in part. Its slices lie in the message, or in
// scratch that the next ReadEvent reuses.
type ReceivedEvent struct {
	Entity    []byte // name of the agent's entity
	Namespace []byte // of the entity
	Machine   []byte // the entity, encoded: for ReadMachine
	Sum       uint64 // of the entity without last_seen, and of the event's pipelines; the order of labels does not matter
	HasCheck  bool
	Metrics   bool  // the event has metrics
	Sequence  int64 // number of the check's event on this connection, from 1

	Check    []byte // name
	Proxy    []byte // proxy_entity_name of the check
	Interval uint32 // s
	Timeout  uint32 // s; of a keepalive: the silence that is a warning
	TTL      int64  // s; of a keepalive: the silence that is critical
	Duration float64
	Issued   int64 // s since 1970, of the request; 0: there was none
	Executed int64 // s since 1970, by the agent's clock
	Status   uint32
	Output   []byte

	codec     Codec
	scratch   []byte
	check     []byte   // encoded: for ReadRules
	points    []byte   // encoded: for ReadPoints
	pipelines [][]byte // encoded references: each of them, or the list in JSON
	hooks     [][]byte // encoded results: each of them, or the list in JSON
}

// HasHooks reports whether the event contains results of hooks.
func (s *ReceivedEvent) HasHooks() bool { return len(s.hooks) > 0 }

// readText returns a text field of an event as a part of the received bytes. Only a text with JSON escapes is decoded,
// into the buffer scratch.
func (s *ReceivedEvent) readText(v fieldValue, into *[]byte) bool {
	if v.codec == Protobuf {
		*into = v.raw
		return true
	}
	from := len(s.scratch)
	var ok bool
	s.scratch, ok = appendString(s.scratch, v.raw)
	*into = s.scratch[from:len(s.scratch):len(s.scratch)]
	return ok
}

// bytesField describes how to decode a string field without copying its bytes. The string stays a part of the message.
func bytesField(number int, name string, at func(*ReceivedEvent) *[]byte) field[ReceivedEvent] {
	return field[ReceivedEvent]{tagOf(number, lengths), name, func(s *ReceivedEvent, v fieldValue) bool { return s.readText(v, at(s)) }}
}

// sumField describes a field whose encoded bytes are hashed, in order to detect a changed entity. A new hash
// shows that the entity has changed.
func sumField(number int, name string) field[ReceivedEvent] {
	return field[ReceivedEvent]{tagOf(number, lengths), name, func(s *ReceivedEvent, v fieldValue) bool { s.Sum += xxhash.Sum64(v.raw); return true }}
}

var receivedFields = []field[ReceivedEvent]{
	{tagOf(2, lengths), "entity", func(s *ReceivedEvent, v fieldValue) bool {
		s.Machine = v.raw
		return readFields(v, receivedEntityFields, s)
	}},
	{tagOf(3, lengths), "check", func(s *ReceivedEvent, v fieldValue) bool {
		if v.isNull() {
			return true
		}
		s.HasCheck, s.check = true, v.raw
		return readFields(v, receivedCheckFields, s)
	}},
	{tagOf(4, lengths), "metrics", func(s *ReceivedEvent, v fieldValue) bool {
		if !v.isNull() {
			s.Metrics, s.points = true, v.raw
		}
		return true
	}},
	intField(7, "sequence", func(s *ReceivedEvent) *int64 { return &s.Sequence }),
	{tagOf(8, lengths), "pipelines", func(s *ReceivedEvent, v fieldValue) bool {
		if !v.isNull() {
			s.pipelines = append(s.pipelines, v.raw)
			s.Sum += xxhash.Sum64(v.raw)
		}
		return true
	}},
}

var receivedEntityFields = []field[ReceivedEvent]{
	sumField(3, "system"),
	sumField(4, "subscriptions"),
	sumField(13, "redact"),
	{tagOf(14, lengths), "metadata", func(s *ReceivedEvent, v fieldValue) bool {
		if v.codec == JSON {
			s.Sum += xxhash.Sum64(v.raw)
		} else {
			for rest, ok := v.raw, true; ok && len(rest) > 0; {
				var raw []byte
				if _, _, raw, rest, ok = nextField(rest); ok {
					s.Sum += xxhash.Sum64(raw)
				}
			}
		}
		return readFields(v, receivedEntityMetaFields, s)
	}},
	sumField(15, "sensu_agent_version"),
	sumField(16, "keepalive_handlers"),
}

var receivedEntityMetaFields = []field[ReceivedEvent]{
	bytesField(1, "name", func(s *ReceivedEvent) *[]byte { return &s.Entity }),
	bytesField(2, "namespace", func(s *ReceivedEvent) *[]byte { return &s.Namespace }),
}

var receivedCheckFields = []field[ReceivedEvent]{
	intField(5, "interval", func(s *ReceivedEvent) *uint32 { return &s.Interval }),
	bytesField(13, "proxy_entity_name", func(s *ReceivedEvent) *[]byte { return &s.Proxy }),
	intField(18, "ttl", func(s *ReceivedEvent) *int64 { return &s.TTL }),
	intField(19, "timeout", func(s *ReceivedEvent) *uint32 { return &s.Timeout }),
	floatField(22, "duration", func(s *ReceivedEvent) *float64 { return &s.Duration }),
	intField(23, "executed", func(s *ReceivedEvent) *int64 { return &s.Executed }),
	intField(25, "issued", func(s *ReceivedEvent) *int64 { return &s.Issued }),
	bytesField(26, "output", func(s *ReceivedEvent) *[]byte { return &s.Output }),
	intField(28, "status", func(s *ReceivedEvent) *uint32 { return &s.Status }),
	{tagOf(34, lengths), "hooks", func(s *ReceivedEvent, v fieldValue) bool {
		if !v.isNull() {
			s.hooks = append(s.hooks, v.raw)
		}
		return true
	}},
	{tagOf(38, lengths), "metadata", func(s *ReceivedEvent, v fieldValue) bool { return readFields(v, receivedCheckMetaFields, s) }},
}

var receivedCheckMetaFields = []field[ReceivedEvent]{bytesField(1, "name", func(s *ReceivedEvent) *[]byte { return &s.Check })}

// ReadEvent decodes the event fields that the server always needs, and leaves the remaining fields encoded.
// Other Read… methods decode the other fields on demand. It refuses an event without an entity, and a check
// without a name.
func (c Codec) ReadEvent(body []byte, s *ReceivedEvent) error {
	*s = ReceivedEvent{codec: c, scratch: s.scratch[:0], hooks: s.hooks[:0], pipelines: s.pipelines[:0]}
	if !readFields(fieldValue{codec: c, raw: body}, receivedFields, s) {
		return c.decode("an event", nil, func(fieldValue) bool { return false })
	}
	switch {
	case len(s.Entity) == 0:
		return model.Errorf(model.Invalid, "the event does not name its entity")
	case s.HasCheck && len(s.Check) == 0:
		return model.Errorf(model.Invalid, "the event does not name its check")
	}
	return nil
}

// CheckRules holds the handlers, pipelines, flapping thresholds and metadata in an event's check configuration.
type CheckRules struct {
	Handlers, Pipelines []string // names
	FlapLow, FlapHigh   uint32   // percent of change; 0: not set
	Labels, Annotations map[string]string
}

var ruleFields = []field[CheckRules]{
	textsField(3, "handlers", func(r *CheckRules) *[]string { return &r.Handlers }),
	intField(4, "high_flap_threshold", func(r *CheckRules) *uint32 { return &r.FlapHigh }),
	intField(6, "low_flap_threshold", func(r *CheckRules) *uint32 { return &r.FlapLow }),
	{tagOf(38, lengths), "metadata", func(r *CheckRules, v fieldValue) bool { return readFields(v, ruleMetaFields, r) }},
	messagesField(46, "pipelines", metaFields, func(r *CheckRules, m *objectMeta) { addText(&r.Pipelines, m.name) }),
}

var ruleMetaFields = []field[CheckRules]{
	pairsField(3, "labels", func(r *CheckRules) *map[string]string { return &r.Labels }),
	pairsField(4, "annotations", func(r *CheckRules) *map[string]string { return &r.Annotations }),
}

// addText appends a string to a list, unless the list already has maxItems elements.
func addText(list *[]string, text string) {
	if len(*list) < maxItems {
		*list = append(*list, text)
	}
}

// ReadRules decodes the handlers, pipelines, flapping thresholds and metadata of the event's check configuration.
func (s *ReceivedEvent) ReadRules() (r CheckRules, err error) {
	err = s.codec.decode("a check", s.check, func(v fieldValue) bool { return readFields(v, ruleFields, &r) })
	return r, err
}

// ReadPipelines decodes the pipelines in an event itself, for example in a keepalive. Pipelines of the event's
// check are not among them.
func (s *ReceivedEvent) ReadPipelines() (names []string, err error) {
	err = s.decodeEach("an event's pipelines", s.pipelines, func(v fieldValue) bool {
		var m objectMeta // a ResourceReference has its name under the number of a meta
		ok := readFields(v, metaFields, &m)
		addText(&names, m.name)
		return ok
	})
	return names, err
}

// decodeEach calls a decoding function with each message in an encoded list. The list is a JSON array, or a
// repeated protobuf field.
func (s *ReceivedEvent) decodeEach(name string, messages [][]byte, read func(fieldValue) bool) error {
	for _, raw := range messages {
		if err := s.codec.decode(name, raw, func(v fieldValue) bool { return v.forEach(read) }); err != nil {
			return err
		}
	}
	return nil
}

// HookResult is the result of a hook, a command that the agent ran after a check.
type HookResult struct {
	Name     string
	Status   int32
	Output   string
	Duration float64 // s
}

var hookResultFields = []field[HookResult]{
	{0, "metadata", func(h *HookResult, v fieldValue) bool { return hookConfigFields[0].read(h, v) }}, // JSON has the config in line
	{tagOf(1, lengths), "", func(h *HookResult, v fieldValue) bool { return readFields(v, hookConfigFields, h) }},
	floatField(2, "duration", func(h *HookResult) *float64 { return &h.Duration }),
	textField(5, "output", func(h *HookResult) *string { return &h.Output }),
	intField(6, "status", func(h *HookResult) *int32 { return &h.Status }),
}

var hookConfigFields = []field[HookResult]{
	messageField(1, "metadata", metaFields, func(h *HookResult, m *objectMeta) { h.Name = m.name }),
}

// ReadHooks decodes the results of the check's hooks. It decodes at most `limit` results.
func (s *ReceivedEvent) ReadHooks(limit int) (list []HookResult, err error) {
	err = s.decodeEach("a hook", s.hooks, func(v fieldValue) bool {
		if len(list) >= limit {
			return true
		}
		list = append(list, HookResult{})
		return readFields(v, hookResultFields, &list[len(list)-1])
	})
	return list, err
}

// Point is one metric point of an event.
type Point struct {
	Name  string
	Value float64
	Time  int64 // since 1970: see At
	Tags  map[string]string
}

// At returns the time of a metric point, for timestamps in s, ms, µs or ns. Senders count seconds, milliseconds,
// microseconds or nanoseconds: the unit is the one that gives a year within a few thousand.
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

var pointFields = []field[Point]{
	textField(1, "name", func(p *Point) *string { return &p.Name }),
	floatField(2, "value", func(p *Point) *float64 { return &p.Value }),
	intField(3, "timestamp", func(p *Point) *int64 { return &p.Time }),
	messagesField(4, "tags", keyValueFields, func(p *Point, x *keyValue) { addKeyValue(&p.Tags, x) }),
}

// metricsReader reads the metrics of an event, keeps their handlers, and passes on each metric point.
type metricsReader struct {
	handlers []string
	point    func(*Point) // nil: points are skipped
}

var metricsFields = []field[metricsReader]{
	textsField(1, "handlers", func(m *metricsReader) *[]string { return &m.handlers }),
	messagesField(2, "points", pointFields, func(m *metricsReader, p *Point) {
		if m.point != nil {
			m.point(p)
		}
	}),
}

// ReadPoints calls f with each metric point of the event.
func (s *ReceivedEvent) ReadPoints(f func(*Point)) error {
	_, err := s.readMetrics(f)
	return err
}

// ReadMetricHandlers decodes the names of the handlers for the event's metrics.
func (s *ReceivedEvent) ReadMetricHandlers() (names []string, err error) { return s.readMetrics(nil) }

// readMetrics decodes the metrics of the event, and calls f with each metric point. It returns the handlers.
func (s *ReceivedEvent) readMetrics(f func(*Point)) (handlers []string, err error) {
	if s.points == nil {
		return nil, nil
	}
	m := metricsReader{point: f}
	if err := s.codec.decode("metrics", s.points, func(v fieldValue) bool { return readFields(v, metricsFields, &m) }); err != nil {
		return nil, err
	}
	return m.handlers, nil
}
