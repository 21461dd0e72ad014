package sensuwire

import (
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

// CheckRequest is the message check_request, with which the backend tells an agent to run a check. In it a
// backend asks a Sensu agent to run a check.
type CheckRequest struct {
	Name      string // name of the check: letters, digits and _ . : -
	Proxy     string // entity that the check is for, which the event repeats; empty: the agent's
	Namespace string
	Command   string   // shell line; the agent expands tokens in {{ }}: see Literal
	Env       []string // NAME=VALUE
	Hooks     []Hook
	Assets    []Asset  // of the command
	Interval  uint32   // s, at least 1: agents refuse a check without
	Timeout   uint32   // s; 0: none
	Stdin     *Stdin   // nil: the command reads nothing
	Secrets   []string // NAME=VALUE, in addition to Env; events do not repeat them
	Issued    int64    // s since 1970: agents run a check at most once per second

	HookAssets []Asset // of each hook; an agent that cannot fetch them runs the command all the same

	MetricFormat string // of the output, which the agent parses; empty: it does not
	MetricTags   map[string]string
	Thresholds   []Threshold
}

// Threshold is a metric threshold in a check_request, with which the agent compares measured values. The agent
// compares measured values with the threshold.
type Threshold struct {
	Metric  string
	Tags    map[string]string
	Missing uint32 // status without such a value; 0: none
	Rules   []ThresholdRange
}

// ThresholdRange holds the lowest and highest good value of a metric threshold. The strings may hold template tokens; an empty
// string means no bound.
type ThresholdRange struct {
	Min, Max string
	Status   uint32 // of a value out of bounds
}

// Stdin has the fields of a check that its command gets on standard input. The command reads the fields on standard
// input, within the event. Agents repeat them in each result, so that other checks leave them out.
type Stdin struct {
	Labels, Annotations                map[string]string
	Handlers, Pipelines, Subscriptions []string
	TTL                                int64 // s
}

// Hook is a command that the agent runs after certain results of a check. The agent runs the hook's command after a
// result.
type Hook struct {
	Name    string   // in the form of a check's
	When    []string // ok, warning, critical, unknown, non-zero, or an exit code
	Command string   // shell line with tokens: see Literal
	Timeout uint32   // s, at least 1: agents refuse a hook without
	Stdin   bool     // the event, as JSON
}

// Asset is an archive in a check_request that the agent downloads for the check's command. It is an archive with
// programs that the agent downloads. The agent fetches and unpacks it, and caches it by its sum.
type Asset struct {
	Name, Namespace string
	URL             string
	SHA512          string
	Headers         map[string]string // of the fetch; agents split values at commas
}

// AppendRequest appends an encoded check_request (the order to run a check) to a buffer.
func (c Codec) AppendRequest(dst []byte, a *CheckRequest) []byte {
	return c.AppendIssueTime(c.AppendSecrets(c.AppendConstantPart(dst, a), a.Secrets), a.Issued)
}

// AppendConstantPart encodes the fields of a check_request that are the same in every run of the check.
func (c Codec) AppendConstantPart(dst []byte, a *CheckRequest) []byte {
	dst = c.encode(dst, func(e *encoder) {
		e.writeMessage(1, "config", func() { a.writeConfig(e) })
		e.writeMessages(2, "assets", len(a.Assets), func(i int) { a.Assets[i].write(e) })
		e.writeMessages(3, "hooks", len(a.Hooks), func(i int) {
			h := &a.Hooks[i]
			e.writeMeta(1, h.Name, a.Namespace)
			e.writeText(2, "command", h.Command)
			e.writeInt(3, "timeout", int64(h.Timeout))
			e.writeBool(4, "stdin", h.Stdin)
		})
		a.writeHookAssets(e)
	})
	if c == JSON {
		dst = dst[:len(dst)-1] // AppendIssueTime closes the object
	}
	return dst
}

// writeConfig encodes the configuration of the check in a check_request message.
func (a *CheckRequest) writeConfig(e *encoder) {
	stdin := a.Stdin
	if stdin == nil {
		stdin = &Stdin{}
	}
	e.writeText(1, "command", a.Command)
	e.writeTexts(3, "handlers", stdin.Handlers)
	e.writeInt(5, "interval", int64(a.Interval))
	e.writeTexts(11, "subscriptions", stdin.Subscriptions)
	e.writeText(13, "proxy_entity_name", a.Proxy)
	type hookList struct{ hook, when string }
	var lists []hookList // one per hook and case
	for i := range a.Hooks {
		for _, when := range a.Hooks[i].When {
			lists = append(lists, hookList{a.Hooks[i].Name, when})
		}
	}
	e.writeMessages(14, "check_hooks", len(lists), func(i int) {
		e.writeTexts(1, "hooks", []string{lists[i].hook})
		e.writeText(2, "type", lists[i].when)
	})
	e.writeBool(15, "stdin", a.Stdin != nil)
	e.writeInt(18, "ttl", stdin.TTL)
	e.writeInt(19, "timeout", int64(a.Timeout))
	e.writeText(22, "output_metric_format", a.MetricFormat)
	e.writeTexts(24, "env_vars", a.Env)
	e.writeMessage(26, "metadata", func() {
		e.writeText(1, "name", a.Name)
		e.writeText(2, "namespace", a.Namespace)
		e.writeTextMap(3, "labels", stdin.Labels)
		e.writeTextMap(4, "annotations", stdin.Annotations)
	})
	e.writePairs(30, "output_metric_tags", a.MetricTags)
	e.writeMessages(32, "pipelines", len(stdin.Pipelines), func(i int) {
		e.writeText(1, "name", stdin.Pipelines[i])
		e.writeText(2, "type", "Pipeline")
		e.writeText(3, "api_version", "core/v2")
	})
	e.writeMessages(33, "output_metric_thresholds", len(a.Thresholds), func(i int) {
		t := &a.Thresholds[i]
		e.writeText(1, "name", t.Metric)
		e.writePairs(2, "tags", t.Tags)
		e.writeMessages(3, "thresholds", len(t.Rules), func(i int) {
			e.writeText(1, "min", t.Rules[i].Min)
			e.writeText(2, "max", t.Rules[i].Max)
			e.writeInt(3, "status", int64(t.Rules[i].Status))
		})
		e.writeInt(4, "null_status", int64(t.Missing))
	})
}

// write encodes the fields of an asset in a check_request message.
func (a *Asset) write(e *encoder) {
	e.writeText(2, "url", a.URL)
	e.writeText(3, "sha512", a.SHA512)
	e.writeMeta(8, a.Name, a.Namespace)
	e.writeTextMap(9, "headers", a.Headers)
}

// writeHookAssets encodes the assets of each hook in a check_request, a map from hook name to assets.
func (a *CheckRequest) writeHookAssets(e *encoder) {
	if len(a.HookAssets) == 0 || len(a.Hooks) == 0 {
		return
	}
	assets := func(number int) {
		e.writeMessages(number, "assets", len(a.HookAssets), func(i int) { a.HookAssets[i].write(e) })
	}
	if e.codec == JSON {
		e.writeMessage(5, "hook_assets", func() {
			for i := range a.Hooks {
				e.writeMessage(0, a.Hooks[i].Name, func() { assets(1) })
			}
		})
		return
	}
	e.writeMessages(5, "", len(a.Hooks), func(i int) {
		e.writeText(1, "", a.Hooks[i].Name)
		e.writeMessage(2, "", func() { assets(1) })
	})
}

// AppendSecrets appends the secrets for the check's command to an encoded check_request.
func (c Codec) AppendSecrets(dst []byte, secrets []string) []byte {
	e := encoder{codec: c, b: dst, comma: true}
	e.writeTexts(6, "secrets", secrets)
	return e.b
}

// AppendIssueTime appends the issue time, which differs in each run, to an encoded check_request. It is the last field.
func (c Codec) AppendIssueTime(dst []byte, issued int64) []byte {
	if c == JSON {
		return append(strconv.AppendInt(append(dst, `,"issued":`...), issued, 10), '}')
	}
	e := encoder{codec: c, b: dst}
	e.writeInt(4, "issued", issued)
	return e.b
}

// ReceivedRequest is a decoded check_request message on the side of the agent.
type ReceivedRequest struct {
	Name     string
	Proxy    string   // proxy_entity_name
	Interval uint32   // s; 0: by cron
	Issued   int64    // s since 1970
	Secrets  []string // NAME=VALUE, for the command's environment
	Check    []byte   // its CheckConfig, encoded, for the event; it lies in the message
}

// Key returns the key of a running check, CHECK or CHECK/ENTITY for a proxy entity. An agent uses the key to track its
// running checks.
func (r *ReceivedRequest) Key() string {
	if r.Proxy == "" {
		return r.Name
	}
	return r.Name + "/" + r.Proxy
}

var requestFields = []field[ReceivedRequest]{
	{tagOf(1, lengths), "config", func(r *ReceivedRequest, v fieldValue) bool {
		if !v.isNull() {
			r.Check = v.raw
		}
		return readFields(v, configFields, r)
	}},
	intField(4, "issued", func(r *ReceivedRequest) *int64 { return &r.Issued }),
	textsField(6, "secrets", func(r *ReceivedRequest) *[]string { return &r.Secrets }),
}

// configFields lists the fields of a CheckConfig that an agent reads.
var configFields = []field[ReceivedRequest]{
	intField(5, "interval", func(r *ReceivedRequest) *uint32 { return &r.Interval }),
	textField(13, "proxy_entity_name", func(r *ReceivedRequest) *string { return &r.Proxy }),
	messageField(26, "metadata", metaFields, func(r *ReceivedRequest, m *objectMeta) { r.Name = m.name }),
}

// ParseRequest decodes the message check_request, the order to run a check.
func (c Codec) ParseRequest(body []byte) (r ReceivedRequest, err error) {
	err = c.decode("a check_request", body, func(v fieldValue) bool { return readFields(v, requestFields, &r) })
	if err == nil && r.Name == "" {
		err = model.Errorf(model.Invalid, "the check_request does not name its check")
	}
	return r, err
}
