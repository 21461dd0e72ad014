package sensuwire

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/muster-fleet/muster/internal/model"
)

// Event is an event of a simulated Sensu agent, such as a keepalive, a check's result, or metrics.
type Event struct {
	ID        [16]byte
	Timestamp int64 // s since 1970
	Sequence  int64 // of the check's events on this connection, from 1
	Entity    *Entity
	Check     []byte // of Request.Check; nil: a keepalive

	// The fields of a keepalive, in seconds.
	Interval uint32
	Warning  uint32
	Critical uint32 // 0: never

	// The fields of a check's result.
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

// Entity describes the machine of a simulated Sensu agent, as sent in its events.
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

// redactedWords returns the keys of labels and annotations that Sensu agents redact by default.
func redactedWords() []string {
	return []string{"password", "passwd", "pass", "api_key", "api_token", "access_key", "secret_key", "private_key", "secret"}
}

// AppendEvent encodes an event of a simulated Sensu agent, and appends the bytes to a buffer.
func (c Codec) AppendEvent(dst []byte, m *Event) []byte {
	return c.encode(dst, func(e *encoder) {
		e.writeInt(1, "timestamp", m.Timestamp)
		e.writeMessage(2, "entity", func() { m.Entity.write(e, m.Timestamp) })
		if !m.MetricsOnly {
			e.writeMessage(3, "check", func() { m.writeCheck(e) })
		}
		if m.Points != nil {
			e.writeMessage(4, "metrics", func() { m.writeMetrics(e) })
		}
		e.writeMeta(5, "", m.Entity.Namespace)
		if c == JSON {
			e.writeText(6, "id", uuid.UUID(m.ID).String())
		} else {
			e.writeText(6, "id", string(m.ID[:]))
		}
		e.writeInt(7, "sequence", m.Sequence)
		e.writeMessages(8, "pipelines", len(m.Pipelines), func(i int) {
			e.writeText(1, "name", m.Pipelines[i])
			e.writeText(2, "type", "Pipeline")
			e.writeText(3, "api_version", "core/v2")
		})
	})
}

// writeCheck encodes the check of an event, or the fields of a keepalive event.
func (m *Event) writeCheck(e *encoder) {
	if m.Check == nil {
		e.writeInt(5, "interval", int64(m.Interval))
		e.writeInt(18, "ttl", int64(m.Critical))
		e.writeInt(19, "timeout", int64(m.Warning))
		e.writeMeta(38, keepaliveCheck, m.Entity.Namespace)
		return
	}
	e.copyCheckConfig(m.Check)
	e.writeFloat(22, "duration", m.Duration)
	e.writeInt(23, "executed", m.Executed)
	e.writeInt(25, "issued", m.Issued)
	e.writeText(26, "output", m.Output)
	e.writeInt(28, "status", int64(m.Status))
	e.writeMessages(34, "hooks", len(m.Hooks), func(i int) { m.Hooks[i].write(e) })
	e.writeText(45, "processed_by", m.Entity.Name)
}

// copyCheckConfig copies the fields of an encoded CheckConfig message into an encoded Check message. The two
// messages have different protobuf numbers. The config was decoded before, so there is no error.
func (e *encoder) copyCheckConfig(config []byte) {
	if e.codec == JSON {
		_ = forEachMember(config, func(key, raw []byte) bool {
			if !isResultKey(string(key)) {
				e.beginMember(string(key))
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
		if number := checkFieldNumber(tag >> 3); number > 0 {
			e.b = protowire.AppendVarint(e.b, number<<3|tag&7)
			e.b = append(e.b, config[protowire.SizeVarint(tag):len(config)-len(rest)]...)
		}
		config = rest
	}
}

// isResultKey reports whether a JSON key of Sensu's Check message holds result data, not configuration. Other
// keys hold the check's configuration.
func isResultKey(key string) bool {
	return slices.Contains([]string{"duration", "executed", "issued", "output", "status", "hooks", "processed_by"}, key)
}

// checkFieldNumber converts the protobuf number of a CheckConfig field to the number of the same Check field. It
// returns 0 if Check lacks the field.
func checkFieldNumber(number uint64) uint64 {
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

// write encodes the result of a hook (a command run after a check).
func (h *HookResult) write(e *encoder) {
	if e.codec == JSON { // a HookConfig is in line
		e.writeMeta(1, h.Name, "")
	} else {
		e.writeMessage(1, "", func() { e.writeMeta(1, h.Name, "") })
	}
	e.writeFloat(2, "duration", h.Duration)
	e.writeText(5, "output", h.Output)
	e.writeInt(6, "status", int64(h.Status))
}

// writeMetrics writes the metrics of an event.
func (m *Event) writeMetrics(e *encoder) {
	e.writeTexts(1, "handlers", m.Handlers)
	e.writeMessages(2, "points", len(m.Points), func(i int) {
		p := &m.Points[i]
		e.writeText(1, "name", p.Name)
		e.writeFloat(2, "value", p.Value)
		e.writeInt(3, "timestamp", p.Time)
		e.writePairs(4, "tags", p.Tags)
	})
}

// writePairs writes a map as a JSON or protobuf list of {name, value}.
func (e *encoder) writePairs(number int, name string, pairs map[string]string) {
	keys := slices.Sorted(maps.Keys(pairs))
	e.writeMessages(number, name, len(keys), func(i int) {
		e.writeText(1, "name", keys[i])
		e.writeText(2, "value", pairs[keys[i]])
	})
}

// write encodes the entity of a simulated Sensu agent.
func (x *Entity) write(e *encoder, lastSeen int64) {
	e.writeText(1, "entity_class", entityClass)
	e.writeMessage(3, "system", func() {
		e.writeText(1, "hostname", x.Name)
		e.writeText(2, "os", "linux")
		e.writeText(3, "platform", "debian")
		e.writeText(4, "platform_family", "debian")
		e.writeText(5, "platform_version", "12.5")
		e.writeMessage(6, "network", func() {
			e.writeMessages(1, "interfaces", 1, func(int) {
				e.writeText(1, "name", "eth0")
				e.writeText(2, "mac", "02:42:ac:11:00:02")
				e.writeTexts(3, "addresses", []string{"172.17.0.2/16"})
			})
		})
		e.writeText(7, "arch", "amd64")
		e.writeText(13, "float_type", "hardfloat")
	})
	e.writeTexts(4, "subscriptions", x.Subscriptions)
	e.writeInt(5, "last_seen", lastSeen)
	e.writeBool(6, "deregister", x.Deregister)
	e.writeMessage(7, "deregistration", func() { e.writeText(1, "handler", x.Deregistration) })
	e.writeText(11, "user", x.User)
	e.writeTexts(13, "redact", redactedWords())
	e.writeMetaWithLabels(14, x.Name, x.Namespace, x.Labels)
	e.writeText(15, "sensu_agent_version", AgentVersion)
	e.writeTexts(16, "keepalive_handlers", x.KeepaliveHandlers)
}

// Machine is the description of the agent's machine in an event, an entity without its name and namespace. It
// describes the agent's machine. Its JSON is Sensu's, without name, namespace and last_seen.
type Machine struct {
	Name              string            `json:"-"`
	Namespace         string            `json:"-"`
	Class             string            `json:"entity_class"`
	System            System            `json:"system"`
	Subscriptions     []string          `json:"subscriptions"`
	Deregister        bool              `json:"deregister"`
	Deregistration    deregistration    `json:"deregistration"`
	User              string            `json:"user,omitempty"`
	Redact            []string          `json:"redact,omitempty"` // keys of labels and annotations whose values must not be shown
	KeepaliveHandlers []string          `json:"keepalive_handlers,omitempty"`
	AgentVersion      string            `json:"sensu_agent_version"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

// deregistration names the handler that Sensu calls after an entity is removed.
type deregistration struct {
	Handler string `json:"handler,omitempty"`
}

// System holds facts about the operating system and hardware of a machine.
type System struct {
	Hostname        string   `json:"hostname"`
	OS              string   `json:"os"`
	Platform        string   `json:"platform"`
	PlatformFamily  string   `json:"platform_family"`
	PlatformVersion string   `json:"platform_version"`
	Network         Network  `json:"network"`
	Arch            string   `json:"arch"`
	ARMVersion      int32    `json:"arm_version,omitempty"`
	LibC            string   `json:"libc_type"`
	VMSystem        string   `json:"vm_system"`
	VMRole          string   `json:"vm_role"`
	CloudProvider   string   `json:"cloud_provider"`
	FloatType       string   `json:"float_type,omitempty"`
	Processes       []string `json:"processes"` // always nil: no free agent sends them
}

// Network holds the network interfaces of a machine.
type Network struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface is a network interface of a machine.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	Addresses []string `json:"addresses"` // with the length of their networks
}

// Addresses returns the IP addresses of all network interfaces of the agent's machine.
func (y *System) Addresses() (list []string) {
	for _, i := range y.Network.Interfaces {
		list = append(list, i.Addresses...)
	}
	return list
}

// redactPairs replaces secret values in a map by a placeholder, for the given keys. It ignores the case of the keys.
func redactPairs(pairs map[string]string, keys []string) {
	for key := range pairs {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }) {
			pairs[key] = model.RedactedValue
		}
	}
}

var machineFields = []field[Machine]{
	textField(1, "entity_class", func(m *Machine) *string { return &m.Class }),
	{tagOf(3, lengths), "system", func(m *Machine, v fieldValue) bool { return readFields(v, systemFields, &m.System) }},
	textsField(4, "subscriptions", func(m *Machine) *[]string { return &m.Subscriptions }),
	{tagOf(6, varint), "deregister", func(m *Machine, v fieldValue) bool { m.Deregister = v.bool(); return true }},
	{tagOf(7, lengths), "deregistration", func(m *Machine, v fieldValue) bool { return readFields(v, deregistrationFields, &m.Deregistration) }},
	textField(11, "user", func(m *Machine) *string { return &m.User }),
	textsField(13, "redact", func(m *Machine) *[]string { return &m.Redact }),
	{tagOf(14, lengths), "metadata", func(m *Machine, v fieldValue) bool { return readFields(v, machineMetaFields, m) }},
	textField(15, "sensu_agent_version", func(m *Machine) *string { return &m.AgentVersion }),
	textsField(16, "keepalive_handlers", func(m *Machine) *[]string { return &m.KeepaliveHandlers }),
}

var deregistrationFields = []field[deregistration]{textField(1, "handler", func(m *deregistration) *string { return &m.Handler })}

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
	{tagOf(6, lengths), "network", func(y *System, v fieldValue) bool { return readFields(v, networkFields, &y.Network) }},
	textField(7, "arch", func(y *System) *string { return &y.Arch }),
	intField(8, "arm_version", func(y *System) *int32 { return &y.ARMVersion }),
	textField(9, "libc_type", func(y *System) *string { return &y.LibC }),
	textField(10, "vm_system", func(y *System) *string { return &y.VMSystem }),
	textField(11, "vm_role", func(y *System) *string { return &y.VMRole }),
	textField(12, "cloud_provider", func(y *System) *string { return &y.CloudProvider }),
	textField(13, "float_type", func(y *System) *string { return &y.FloatType }),
}

var networkFields = []field[Network]{messagesField(1, "interfaces", interfaceFields, func(n *Network, i *Interface) {
	if len(n.Interfaces) < maxItems {
		n.Interfaces = append(n.Interfaces, *i)
	}
})}

var interfaceFields = []field[Interface]{
	textField(1, "name", func(i *Interface) *string { return &i.Name }),
	textField(2, "mac", func(i *Interface) *string { return &i.MAC }),
	textsField(3, "addresses", func(i *Interface) *[]string { return &i.Addresses }),
}

// ReadMachine decodes the description of the agent's machine (the entity) in an event. It replaces the values of
// labels and annotations that the agent lists in redact, by default passwords and keys: they must not leave the
// server, and so no part of it has them.
func (s *ReceivedEvent) ReadMachine() (*Machine, error) {
	m := new(Machine)
	if err := s.codec.decode("an entity", s.Machine, func(v fieldValue) bool { return readFields(v, machineFields, m) }); err != nil {
		return nil, err
	}
	keys := m.Redact
	if len(keys) == 0 {
		keys = redactedWords()
	}
	redactPairs(m.Labels, keys)
	redactPairs(m.Annotations, keys)
	return m, nil
}
