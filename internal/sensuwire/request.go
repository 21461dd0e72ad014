package sensuwire

import (
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

// Ask is a check_request, as a backend sends it.
type Ask struct {
	Name      string // of the check: letters, digits and _ . : -
	Proxy     string // entity that the check is for, which the event repeats; empty: the agent's
	Namespace string
	Command   string   // shell line; the agent expands tokens in {{ }}: see Literal
	Env       []string // NAME=VALUE
	Hooks     []Hook
	Assets    []Asset  // of the command and its hooks
	Interval  uint32   // s, at least 1: agents refuse a check without
	Timeout   uint32   // s; 0: none
	Secrets   []string // NAME=VALUE, in addition to Env; events do not repeat them
	Issued    int64    // s since 1970: agents run a check at most once per second
}

// Hook is a hook of a check_request: a command that the agent runs after a result.
type Hook struct {
	Name    string   // in the form of a check's
	When    []string // ok, warning, critical, unknown, non-zero, or an exit code
	Command string   // shell line with tokens: see Literal
	Timeout uint32   // s, at least 1: agents refuse a hook without
	Stdin   bool     // the event, as JSON
}

// Asset is an archive of a check_request. The agent fetches and unpacks it, and caches it by its sum.
type Asset struct {
	Name, Namespace string
	URL             string
	SHA512          string
	Headers         map[string]string // of the fetch; agents split values at commas
}

// AppendAsk appends a check_request: AppendStable, AppendSecrets and AppendIssued.
func (c Codec) AppendAsk(dst []byte, a *Ask) []byte {
	return c.AppendIssued(c.AppendSecrets(c.AppendStable(dst, a), a.Secrets), a.Issued)
}

// AppendStable appends the part of a check_request that is the same each time.
func (c Codec) AppendStable(dst []byte, a *Ask) []byte {
	dst = c.encode(dst, func(e *encoder) {
		e.message(1, "config", func() { a.writeConfig(e) })
		e.messages(2, "assets", len(a.Assets), func(i int) { a.Assets[i].write(e) })
		e.messages(3, "hooks", len(a.Hooks), func(i int) {
			h := &a.Hooks[i]
			e.meta(1, h.Name, a.Namespace)
			e.text(2, "command", h.Command)
			e.int(3, "timeout", int64(h.Timeout))
			e.bool(4, "stdin", h.Stdin)
		})
		a.writeHookAssets(e)
	})
	if c == JSON {
		dst = dst[:len(dst)-1] // AppendIssued closes the object
	}
	return dst
}

func (a *Ask) writeConfig(e *encoder) {
	e.text(1, "command", a.Command)
	e.int(5, "interval", int64(a.Interval))
	e.text(13, "proxy_entity_name", a.Proxy)
	type hookList struct{ hook, when string }
	var lists []hookList // one per hook and case
	for i := range a.Hooks {
		for _, when := range a.Hooks[i].When {
			lists = append(lists, hookList{a.Hooks[i].Name, when})
		}
	}
	e.messages(14, "check_hooks", len(lists), func(i int) {
		e.texts(1, "hooks", []string{lists[i].hook})
		e.text(2, "type", lists[i].when)
	})
	e.int(19, "timeout", int64(a.Timeout))
	e.texts(24, "env_vars", a.Env)
	e.meta(26, a.Name, a.Namespace)
}

func (a *Asset) write(e *encoder) {
	e.text(2, "url", a.URL)
	e.text(3, "sha512", a.SHA512)
	e.meta(8, a.Name, a.Namespace)
	e.pairs(9, "headers", a.Headers)
}

// writeHookAssets gives every hook the check's assets: a map of lists by the hook's name.
func (a *Ask) writeHookAssets(e *encoder) {
	if len(a.Assets) == 0 || len(a.Hooks) == 0 {
		return
	}
	assets := func(number int) {
		e.messages(number, "assets", len(a.Assets), func(i int) { a.Assets[i].write(e) })
	}
	if e.codec == JSON {
		e.message(5, "hook_assets", func() {
			for i := range a.Hooks {
				e.message(0, a.Hooks[i].Name, func() { assets(1) })
			}
		})
		return
	}
	e.messages(5, "", len(a.Hooks), func(i int) {
		e.text(1, "", a.Hooks[i].Name)
		e.message(2, "", func() { assets(1) })
	})
}

// AppendSecrets appends the secrets of a check_request.
func (c Codec) AppendSecrets(dst []byte, secrets []string) []byte {
	e := encoder{codec: c, b: dst, comma: true}
	e.texts(6, "secrets", secrets)
	return e.b
}

// AppendIssued appends the time of a check_request, which ends it.
func (c Codec) AppendIssued(dst []byte, issued int64) []byte {
	if c == JSON {
		return append(strconv.AppendInt(append(dst, `,"issued":`...), issued, 10), '}')
	}
	e := encoder{codec: c, b: dst}
	e.int(4, "issued", issued)
	return e.b
}

// Request is a check_request, as an agent reads it.
type Request struct {
	Name     string
	Proxy    string   // proxy_entity_name
	Interval uint32   // s; 0: by cron
	Issued   int64    // s since 1970
	Secrets  []string // NAME=VALUE, for the command's environment
	Check    []byte   // its CheckConfig, encoded, for the event; it lies in the message
}

// Key identifies a check on an agent.
func (r *Request) Key() string {
	if r.Proxy == "" {
		return r.Name
	}
	return r.Name + "/" + r.Proxy
}

var requestFields = []field[Request]{
	{tagOf(1, lengths), "config", func(r *Request, v value) bool {
		if !v.isNull() {
			r.Check = v.raw
		}
		return readFields(v, configFields, r)
	}},
	intField(4, "issued", func(r *Request) *int64 { return &r.Issued }),
	textsField(6, "secrets", func(r *Request) *[]string { return &r.Secrets }),
}

// configFields lists the fields of a CheckConfig that an agent reads.
var configFields = []field[Request]{
	intField(5, "interval", func(r *Request) *uint32 { return &r.Interval }),
	textField(13, "proxy_entity_name", func(r *Request) *string { return &r.Proxy }),
	messageField(26, "metadata", metaFields, func(r *Request, m *meta) { r.Name = m.name }),
}

// ParseRequest decodes a check_request.
func (c Codec) ParseRequest(body []byte) (r Request, err error) {
	err = c.decode("a check_request", body, func(v value) bool { return readFields(v, requestFields, &r) })
	if err == nil && r.Name == "" {
		err = model.Errorf(model.Invalid, "a check_request without the name of a check")
	}
	return r, err
}
