package model

import "time"

// MaxSpoolAge bounds how long an agent keeps a result that no server has acknowledged.
const MaxSpoolAge = 7 * 24 * time.Hour

// DefinitionKind is the kind of a compiled definition, such as a check. It is part of the
// wire and of stored definitions.
type DefinitionKind uint32

// DefinitionCheck is the kind of definitions that tell an agent to run a check.
const DefinitionCheck DefinitionKind = 1

// Definition is a compiled check, Template or other assigned resource, as sent to agents. It has an id and a
// hash. Definitions of all kinds have the same header; Kind tells the type of the body. Definitions are
// content-addressed, shared by every node that has them, immutable once sealed, and kept while the journal, a
// snapshot or a spool can name them.
type Definition struct {
	ID        DefinitionID
	Hash      [16]byte // first half of SHA-256 of the encoded definition (wire.AppendDefinition)
	Kind      DefinitionKind
	Unit      UnitID
	Namespace NamespaceID // namespace of the unit
	Name      string      // name of the unit in its namespace
	body      any         // *CheckDefinition, or the encoded body ([]byte) of a kind that this build does not know
}

// AsCheck returns the definition's body as a compiled check, or nil for another kind of definition. It returns
// nil if the definition is nil or of another kind.
func (c *Definition) AsCheck() *CheckDefinition {
	if c == nil {
		return nil
	}
	check, _ := c.body.(*CheckDefinition)
	return check
}

// Secrets returns the secrets that a check, Template or directive reads.
func (c *Definition) Secrets() []DefinitionSecret {
	switch body := c.body.(type) {
	case *CheckDefinition:
		return body.Secrets
	case *TemplateDefinition:
		return body.Secrets
	case *DirectiveDefinition:
		return body.Secrets
	}
	return nil
}

// Assets returns the assets of a check or directive.
func (c *Definition) Assets() []DefinitionAsset {
	switch body := c.body.(type) {
	case *CheckDefinition:
		return body.Assets
	case *DirectiveDefinition:
		return body.Assets
	}
	return nil
}

// Body returns the content of the definition, the compiled check, Template or Directive.
func (c *Definition) Body() any { return c.body }

// SetBody sets the kind and the compiled content of a definition, once, before other code reads the definition.
// Neither may be changed after this call. The compiler or decoder of the kind calls it once, before other code
// reads the definition.
func (c *Definition) SetBody(kind DefinitionKind, body any) *Definition {
	c.Kind, c.body = kind, body
	return c
}

// CheckDefinition is a compiled check, with everything that agents and the server need. Agents run it, and the server
// derives events from its results. Its Unit is the CheckID. It has more than 25 fields because it mirrors the message
// CheckDefinition of the protocol, field by field: the codec is generated from that.
type CheckDefinition struct {
	Definition

	// Execution.
	Command       *Command // exactly one of Command and Probe
	Probe         *Probe
	Timeout       time.Duration
	Env           map[string]string
	Secrets       []DefinitionSecret
	Stdin         string // of the command
	StdinEvent    bool   // the last event is on the command's standard input
	RunAs         string // user; empty: the agent's
	Assets        []DefinitionAsset
	Hooks         []Hook
	MaxOutput     int  // bytes
	DiscardOutput bool // results are sent without the output of the command
	Sensu         bool // kept from Sensu, see CheckSpec
	OwnEntity     bool // with Sensu and Proxy: tokens are of the agent's own entity, as for Sensu's proxy_entity_name

	// Schedule.
	Interval   time.Duration // zero with Cron
	Cron       string
	TimeZone   string // of Cron; empty: the node's
	Except     []Span // calendars without runs
	RoundRobin bool   // the server schedules each run, not the agents
	Proxy      bool   // each result is about a proxy node that the assignment names

	// Judgement.
	TTL          time.Duration // the longest time between two results; zero: none
	FailAfter    uint32        // results, at least 1
	RecoverAfter uint32        // results, at least 1
	Severities   [4]Severity   // by Status
	FlapStart    uint32        // percent of changes from which on an event flaps; zero: never
	FlapEnd      uint32        // percent of changes below which flapping ends
	Metrics      *Metrics
	Thresholds   []Threshold

	// Notification.
	Handlers  []string // notified when a problem opens and closes
	Route     string   // replaces Handlers; both empty: all matching routes
	Pipelines []string // imported from Sensu; they get every event
}

// ToDefinition wraps the compiled check as a Definition, the common form of all compiled resources. The
// compiled check must not be changed after this call.
func (c *CheckDefinition) ToDefinition() *Definition { return c.Definition.SetBody(DefinitionCheck, c) }

// OutputDiscarded is the text of a result whose output DiscardOutput has dropped.
const OutputDiscarded = "(output discarded)"

// DefinitionAsset is an Asset (program archive) of a compiled check, with one archive per platform. It leaves
// out the address (URL) that the server fetched the archive from.
type DefinitionAsset struct {
	Name      string
	Builds    []AssetBuild
	HooksOnly bool // hooks of the check name the asset: the command runs without it, too
}

// Span is one calendar of a compiled check, with its time spans and its time zone.
type Span struct {
	Zone  string // empty: UTC
	Spans []WindowSpan
}
