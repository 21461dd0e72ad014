package sensuwire

import (
	"maps"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
)

// Event is an event that an agent sends: a keepalive, the result of a check, or metrics.
type Event struct {
	ID        [16]byte
	Timestamp int64 // s since 1970
	Sequence  int64 // of the check's events on this connection, from 1
	Entity    *Entity
	Check     []byte // of Request.Check; nil: a keepalive

	// Of a keepalive, s.
	Interval uint32
	Warning  uint32
	Critical uint32 // 0: never

	// Of a result.
	Issued   int64 // s since 1970
	Executed int64 // s since 1970
	Duration float64
	Status   uint32
	Output   string
	Hooks    []HookResult

	Pipelines   []string
	Points      []Point  // nil: no metrics
	Handlers    []string // of the metrics
	MetricsOnly bool     // the event has no check
}

// Entity is the machine of a simulated agent.
type Entity struct {
	Name              string
	Namespace         string
	User              string
	Subscriptions     []string
	Labels            map[string]string
	Deregister        bool
	Deregistration    string // handler of the deregistration
	KeepaliveHandlers []string
}

// Properties that all simulated machines share.
const (
	AgentVersion   = "6.9.2"
	entityClass    = "agent"
	keepaliveCheck = "keepalive"
)

// redactedWords returns the keys that agents redact by default; every event has them.
func redactedWords() []string {
	return []string{"password", "passwd", "pass", "api_key", "api_token", "access_key", "secret_key", "private_key", "secret"}
}

// AppendEvent appends an event.
func (c Codec) AppendEvent(dst []byte, m *Event) []byte {
	return c.encode(dst, func(e *encoder) {
		e.int(1, "timestamp", m.Timestamp)
		e.message(2, "entity", func() { m.Entity.write(e, m.Timestamp) })
		if !m.MetricsOnly {
			e.message(3, "check", func() { m.writeCheck(e) })
		}
		if m.Points != nil {
			e.message(4, "metrics", func() { m.writeMetrics(e) })
		}
		e.meta(5, "", m.Entity.Namespace)
		if c == JSON {
			e.text(6, "id", uuid.UUID(m.ID).String())
		} else {
			e.text(6, "id", string(m.ID[:]))
		}
		e.int(7, "sequence", m.Sequence)
		e.messages(8, "pipelines", len(m.Pipelines), func(i int) {
			e.text(1, "name", m.Pipelines[i])
			e.text(2, "type", "Pipeline")
			e.text(3, "api_version", "core/v2")
		})
	})
}

func (m *Event) writeCheck(e *encoder) {
	if m.Check == nil {
		e.int(5, "interval", int64(m.Interval))
		e.int(18, "ttl", int64(m.Critical))
		e.int(19, "timeout", int64(m.Warning))
		e.meta(38, keepaliveCheck, m.Entity.Namespace)
		return
	}
	e.copyConfig(m.Check)
	e.float(22, "duration", m.Duration)
	e.int(23, "executed", m.Executed)
	e.int(25, "issued", m.Issued)
	e.text(26, "output", m.Output)
	e.int(28, "status", int64(m.Status))
	e.messages(34, "hooks", len(m.Hooks), func(i int) { m.Hooks[i].write(e) })
	e.text(45, "processed_by", m.Entity.Name)
}

// copyConfig copies the fields of a CheckConfig into a Check, whose numbers in protobuf differ. The config was decoded
// before, so there is no error.
func (e *encoder) copyConfig(config []byte) {
	if e.codec == JSON {
		_ = members(config, func(key, raw []byte) bool {
			if !isResultKey(string(key)) {
				e.key(string(key))
				e.b = append(e.b, raw...)
			}
			return true
		})
		return
	}
	for len(config) > 0 {
		tag, _, _, rest, ok := nextField(config)
		if !ok {
			return
		}
		if number := checkNumber(tag >> 3); number > 0 {
			e.b = protowire.AppendVarint(e.b, number<<3|tag&7)
			e.b = append(e.b, config[protowire.SizeVarint(tag):len(config)-len(rest)]...)
		}
		config = rest
	}
}

// isResultKey reports whether a member of a Check in JSON is of the result, not of the config.
func isResultKey(key string) bool {
	return slices.Contains([]string{"duration", "executed", "issued", "output", "status", "hooks", "processed_by"}, key)
}

// checkNumber returns the number in Check of a field of CheckConfig; 0: Check does not have it.
func checkNumber(number uint64) uint64 {
	switch {
	case number <= 21:
		return number
	case number <= 24: // output_metric_format, output_metric_handlers, env_vars
		return number + 13
	case number >= 26 && number <= 29: // metadata, max_output_size, discard_output, secrets
		return number + 12
	case number == 30 || number == 31: // output_metric_tags, scheduler
		return number + 13
	case number >= 32 && number <= 34: // pipelines, output_metric_thresholds, subdues
		return number + 14
	}
	return 0
}

func (h *HookResult) write(e *encoder) {
	if e.codec == JSON { // a HookConfig is in line
		e.meta(1, h.Name, "")
	} else {
		e.message(1, "", func() { e.meta(1, h.Name, "") })
	}
	e.float(2, "duration", h.Duration)
	e.text(5, "output", h.Output)
	e.int(6, "status", int64(h.Status))
}

func (m *Event) writeMetrics(e *encoder) {
	e.texts(1, "handlers", m.Handlers)
	e.messages(2, "points", len(m.Points), func(i int) {
		p := &m.Points[i]
		e.text(1, "name", p.Name)
		e.float(2, "value", p.Value)
		e.int(3, "timestamp", p.Time)
		keys := slices.Sorted(maps.Keys(p.Tags))
		e.messages(4, "tags", len(keys), func(i int) {
			e.text(1, "name", keys[i])
			e.text(2, "value", p.Tags[keys[i]])
		})
	})
}

func (x *Entity) write(e *encoder, lastSeen int64) {
	e.text(1, "entity_class", entityClass)
	e.message(3, "system", func() {
		e.text(1, "hostname", x.Name)
		e.text(2, "os", "linux")
		e.text(3, "platform", "debian")
		e.text(4, "platform_family", "debian")
		e.text(5, "platform_version", "12.5")
		e.message(6, "network", func() {
			e.messages(1, "interfaces", 1, func(int) {
				e.text(1, "name", "eth0")
				e.text(2, "mac", "02:42:ac:11:00:02")
				e.texts(3, "addresses", []string{"172.17.0.2/16"})
			})
		})
		e.text(7, "arch", "amd64")
		e.text(13, "float_type", "hardfloat")
	})
	e.texts(4, "subscriptions", x.Subscriptions)
	e.int(5, "last_seen", lastSeen)
	e.bool(6, "deregister", x.Deregister)
	e.message(7, "deregistration", func() { e.text(1, "handler", x.Deregistration) })
	e.text(11, "user", x.User)
	e.texts(13, "redact", redactedWords())
	e.metaOf(14, x.Name, x.Namespace, x.Labels)
	e.text(15, "sensu_agent_version", AgentVersion)
	e.texts(16, "keepalive_handlers", x.KeepaliveHandlers)
}

// Machine is the entity of an agent.
type Machine struct {
	Name, Namespace   string
	Class             string
	Labels            map[string]string
	Annotations       map[string]string
	Subscriptions     []string
	Deregister        bool
	Deregistration    string // handler of the deregistration
	KeepaliveHandlers []string
	AgentVersion      string
	System            System
}

// System describes the operating system and hardware of a machine.
type System struct {
	Hostname, OS, Platform, PlatformFamily, PlatformVersion, Arch string
	VMSystem, CloudProvider                                       string
	Addresses                                                     []string // with the length of their networks
}

var machineFields = []field[Machine]{
	textField(1, "entity_class", func(m *Machine) *string { return &m.Class }),
	{tagOf(3, lengths), "system", func(m *Machine, v value) bool { return readFields(v, systemFields, &m.System) }},
	textsField(4, "subscriptions", func(m *Machine) *[]string { return &m.Subscriptions }),
	{tagOf(6, varint), "deregister", func(m *Machine, v value) bool { m.Deregister = v.bool(); return true }},
	{tagOf(7, lengths), "deregistration", func(m *Machine, v value) bool { return readFields(v, deregistrationFields, m) }},
	{tagOf(14, lengths), "metadata", func(m *Machine, v value) bool { return readFields(v, machineMetaFields, m) }},
	textField(15, "sensu_agent_version", func(m *Machine) *string { return &m.AgentVersion }),
	textsField(16, "keepalive_handlers", func(m *Machine) *[]string { return &m.KeepaliveHandlers }),
}

var deregistrationFields = []field[Machine]{textField(1, "handler", func(m *Machine) *string { return &m.Deregistration })}

var machineMetaFields = []field[Machine]{
	textField(1, "name", func(m *Machine) *string { return &m.Name }),
	textField(2, "namespace", func(m *Machine) *string { return &m.Namespace }),
	pairsField(3, "labels", func(m *Machine) *map[string]string { return &m.Labels }),
	pairsField(4, "annotations", func(m *Machine) *map[string]string { return &m.Annotations }),
}

var systemFields = []field[System]{
	textField(1, "hostname", func(y *System) *string { return &y.Hostname }),
	textField(2, "os", func(y *System) *string { return &y.OS }),
	textField(3, "platform", func(y *System) *string { return &y.Platform }),
	textField(4, "platform_family", func(y *System) *string { return &y.PlatformFamily }),
	textField(5, "platform_version", func(y *System) *string { return &y.PlatformVersion }),
	{tagOf(6, lengths), "network", func(y *System, v value) bool { return readFields(v, networkFields, y) }},
	textField(7, "arch", func(y *System) *string { return &y.Arch }),
	textField(10, "vm_system", func(y *System) *string { return &y.VMSystem }),
	textField(12, "cloud_provider", func(y *System) *string { return &y.CloudProvider }),
}

var networkFields = []field[System]{
	{tagOf(1, lengths), "interfaces", func(y *System, v value) bool {
		return v.forEach(func(v value) bool { return readFields(v, interfaceFields, y) })
	}},
}

var interfaceFields = []field[System]{textsField(3, "addresses", func(y *System) *[]string { return &y.Addresses })}

// ReadMachine decodes the entity of an event.
func (s *Received) ReadMachine() (*Machine, error) {
	m := new(Machine)
	if err := s.codec.decode("an entity", s.Machine, func(v value) bool { return readFields(v, machineFields, m) }); err != nil {
		return nil, err
	}
	return m, nil
}
