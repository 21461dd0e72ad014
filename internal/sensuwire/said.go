package sensuwire

import (
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Said is what a backend reads of an event. Slices lie in the message, or in scratch that
// the next ReadSaid uses again.
type Said struct {
	Entity    []byte // name of whom it speaks
	Namespace []byte // that entity's
	Machine   []byte // the entity, encoded: for ReadMachine
	Sum       uint64 // of Machine less what each event says anew, and of the event's own pipelines
	HasCheck  bool
	Metrics   bool // it carries metrics

	Check    []byte // name
	Proxy    []byte // the check's proxy_entity_name
	Interval uint32 // s
	Timeout  uint32 // s; of a keepalive: the silence that is a warning
	TTL      int64  // s; of a keepalive: the silence that is critical
	Duration float64
	Issued   int64 // s since 1970, as the request had it; 0: nobody asked
	Executed int64 // s since 1970, by the agent's clock
	Status   uint32
	Output   []byte

	text   []byte   // scratch
	check  []byte   // the check, encoded: for ReadRules
	points []byte   // what it carries of metrics, encoded
	piped  [][]byte // references to the event's pipelines, encoded: each of them, or the list in JSON
	hooks  [][]byte // what the check's hooks brought, encoded: each of them, or the list in JSON
}

func (s *Said) reset() { *s = Said{text: s.text[:0], hooks: s.hooks[:0], piped: s.piped[:0]} }

// HookResult says whether hooks of the check ran.
func (s *Said) HasHooks() bool { return len(s.hooks) > 0 }

// Machine is an entity in full.
type Machine struct {
	Name, Namespace string
	Class           string
	Labels          map[string]string
	Annotations     map[string]string
	Subscriptions   []string
	Deregister      bool
	Deregistration  string // the handler that is to hear that it was deregistered
	// KeepaliveHandlers are to hear of its keepalive.
	KeepaliveHandlers []string
	AgentVersion      string
	System            System
}

// System is what an agent measures of its machine.
type System struct {
	Hostname, OS, Platform, PlatformFamily, PlatformVersion, Arch string
	VMSystem, CloudProvider                                       string
	Addresses                                                     []string // with the length of their networks
}

// maxItems bounds what is read of a machine's lists and maps: whoever says more is cut.
const maxItems = 1024

// Literal makes a text mean itself where the agent expands its tokens: it runs Go's template
// over the check, encoded as JSON, so that a quotation mark must not stand in the braces.
func Literal(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return strings.ReplaceAll(text, "{{", "{{`{{`}}")
}

func missing(what string) error {
	return model.Errorf(model.Invalid, "an event without %s", what)
}

// whole refuses an event that speaks of nobody.
func (s *Said) whole() error {
	switch {
	case len(s.Entity) == 0:
		return missing("the name of an entity")
	case s.HasCheck && len(s.Check) == 0:
		return missing("the name of its check")
	}
	return nil
}
