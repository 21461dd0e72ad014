package model

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// FieldError is an error in a template, together with the field that contains the template.
type FieldError struct {
	Field string
	Err   *TemplateError
}

// Error returns the error text with the path of the field that contains the template.
func (e *FieldError) Error() string { return e.Field + ", " + e.Err.Error() }

// Unwrap returns the error without the path of the field.
func (e *FieldError) Unwrap() error { return e.Err }

// CommandTemplate is a check's command with its arguments and environment, parsed as templates. It is parsed once per
// definition and expanded once per assignment.
type CommandTemplate struct {
	line  lineTemplate
	probe string
	args  map[string]*Template
	env   map[string]*Template
	runAs *Template
	stdin *Template
	hooks []lineTemplate
	tags  map[string]*Template
	all   []*Template
	names []string

	thresholds []Threshold
	bounds     map[string]*Template // by their text
}

// TemplateTexts has the parts of a command or probe in which template variables are allowed
type TemplateTexts struct {
	Command *Command // exactly one of Command and Probe
	Probe   *Probe
	Env     map[string]string
	RunAs   string
	Stdin   string
	Hooks   []Hook
	Tags    map[string]string // of metrics
	Bounds  []Threshold       // thresholds, for Sensu
	Sensu   bool              // the variables are tokens of Sensu
}

// TemplateTexts returns the texts of a check that may contain template variables.
func (s *CheckSpec) TemplateTexts() TemplateTexts {
	return TemplateTexts{Command: s.Command, Probe: s.Probe, Env: s.Env, RunAs: s.RunAs, Stdin: s.Stdin, Hooks: s.Hooks, Tags: s.Metrics.templateTags(), Bounds: s.Thresholds, Sensu: s.Sensu}
}

// TemplateTexts returns the texts of the compiled check that may contain template variables
func (c *CheckDefinition) TemplateTexts() TemplateTexts {
	return TemplateTexts{Command: c.Command, Probe: c.Probe, Env: c.Env, RunAs: c.RunAs, Stdin: c.Stdin, Hooks: c.Hooks, Tags: c.Metrics.templateTags(), Bounds: c.Thresholds, Sensu: c.Sensu}
}

// templateTags returns the tags that a check adds to its metrics, or nil without tags.
func (m *Metrics) templateTags() map[string]string {
	if m == nil {
		return nil
	}
	return m.Tags
}

// ExpandedCommand is a command with a node's property values in place of template variables, ready to run.
type ExpandedCommand struct {
	Shell string
	Argv  []string
	Probe string
	Args  map[string]string
	Env   map[string]string
	RunAs string
	Stdin string
	Hooks []Command         // in the definition's order
	Tags  map[string]string // of metrics

	Thresholds []Threshold
}

// lineTemplate is a shell line or a list of arguments, parsed as template texts.
type lineTemplate struct {
	shell *Template
	argv  []*Template
}

// Parse parses the template variables in all texts. The error joins a *FieldError for each wrong text.
func (x TemplateTexts) Parse() (*CommandTemplate, error) {
	t := &CommandTemplate{}
	var errs []error
	parse := func(text string, shell bool, field string, args ...any) *Template {
		parsed, err := ParseSensuTemplate(text)
		if !x.Sensu {
			parsed, err = ParseTemplate(text, shell)
		}
		if err != nil {
			var wrong *TemplateError
			errors.As(err, &wrong)
			errs = append(errs, &FieldError{fmt.Sprintf(field, args...), wrong})
			return nil
		}
		t.all = append(t.all, parsed)
		for _, name := range parsed.Names() {
			if !slices.Contains(t.names, name) {
				t.names = append(t.names, name)
			}
		}
		return parsed
	}
	parseMap := func(texts map[string]string, field string) map[string]*Template {
		out := make(map[string]*Template, len(texts))
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			out[key] = parse(texts[key], false, field+".%s", key)
		}
		return out
	}
	line := func(c *Command, field string) (l lineTemplate) {
		switch {
		case c == nil:
		case c.Argv == nil:
			l.shell = parse(c.Shell, true, "%s", field)
		default:
			for i, arg := range c.Argv {
				l.argv = append(l.argv, parse(arg, false, "%s[%d]", field, i))
			}
		}
		return l
	}
	t.line = line(x.Command, "command")
	for i := range x.Hooks {
		t.hooks = append(t.hooks, line(x.Hooks[i].Command, fmt.Sprintf("hooks[%d].command", i)))
	}
	if x.Command == nil && x.Probe != nil {
		t.probe = x.Probe.Name
		t.args = parseMap(x.Probe.Args, "probe.args")
	}
	t.env, t.tags = parseMap(x.Env, "env"), parseMap(x.Tags, "metrics.tags")
	t.thresholds, t.bounds = x.Bounds, map[string]*Template{}
	for i := range x.Bounds {
		for _, b := range [...]*Bounds{x.Bounds[i].Warning, x.Bounds[i].Critical, x.Bounds[i].Unknown} {
			if b != nil {
				t.bounds[b.MinToken] = parse(b.MinToken, false, "thresholds[%d]", i)
				t.bounds[b.MaxToken] = parse(b.MaxToken, false, "thresholds[%d]", i)
			}
		}
	}
	t.runAs = parse(x.RunAs, false, "runAs")
	t.stdin = parse(x.Stdin, false, "stdin")
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.Sort(t.names)
	return t, nil
}

// Template parses the command, arguments and other texts of the compiled check as templates.
func (c *CheckDefinition) Template() (*CommandTemplate, error) { return c.TemplateTexts().Parse() }

// Names returns the sorted names of the node properties that the command template reads.
func (t *CommandTemplate) Names() []string { return t.names }

// UsesLabel reports whether a Sensu token in the command uses the label with the given key. Such a key is a label.
func (t *CommandTemplate) UsesLabel(key string) bool {
	return slices.ContainsFunc(t.all, func(t *Template) bool { return t.sensu != nil && t.sensu.reads(key) })
}

// UnexpandedCommand returns the command of the compiled check as declared, with template variables
func (c *CheckDefinition) UnexpandedCommand() ExpandedCommand {
	out := ExpandedCommand{RunAs: c.RunAs, Stdin: c.Stdin, Env: maps.Clone(c.Env), Tags: c.Metrics.templateTags(), Thresholds: c.Thresholds}
	switch {
	case c.Command != nil:
		out.Shell, out.Argv = c.Command.Shell, c.Command.Argv
	case c.Probe != nil:
		out.Probe, out.Args = c.Probe.Name, c.Probe.Args
	}
	for i := range c.Hooks {
		out.Hooks = append(out.Hooks, *c.Hooks[i].Command)
	}
	return out
}

// Expand replaces the template variables of a command by a node's property values. The error is a *MissingError, or an
// error about a token.
func (t *CommandTemplate) Expand(values PropertyValues) (ExpandedCommand, error) {
	var failed error
	expand := func(p *Template) string {
		if p == nil {
			return ""
		}
		text, err := p.Expand(values)
		if err != nil && failed == nil {
			failed = err
		}
		return text
	}
	expandMap := func(m map[string]*Template) map[string]string {
		out := make(map[string]string, len(m))
		for _, key := range slices.Sorted(maps.Keys(m)) {
			out[key] = expand(m[key])
		}
		return out
	}
	line := func(l lineTemplate) (c Command) {
		c.Shell = expand(l.shell)
		for _, arg := range l.argv {
			c.Argv = append(c.Argv, expand(arg))
		}
		return c
	}
	command := line(t.line)
	out := ExpandedCommand{Shell: command.Shell, Argv: command.Argv, Probe: t.probe, RunAs: expand(t.runAs), Stdin: expand(t.stdin)}
	for _, hook := range t.hooks {
		out.Hooks = append(out.Hooks, line(hook))
	}
	out.Args, out.Env, out.Tags = expandMap(t.args), expandMap(t.env), expandMap(t.tags)
	out.Thresholds = slices.Clone(t.thresholds)
	for i := range out.Thresholds {
		th := &out.Thresholds[i]
		for _, b := range [...]**Bounds{&th.Warning, &th.Critical, &th.Unknown} {
			number := func(token string, constant *float64) *float64 {
				if token == "" {
					return constant
				}
				n, err := strconv.ParseFloat(strings.TrimSpace(expand(t.bounds[token])), 64)
				if err != nil && failed == nil {
					failed = fmt.Errorf("threshold of %s: the value of token %s is no number on this node", th.Metric, token)
				}
				return &n
			}
			if *b != nil {
				*b = &Bounds{Min: number((*b).MinToken, (*b).Min), Max: number((*b).MaxToken, (*b).Max)}
			}
		}
	}
	return out, failed
}

// Expand replaces the template variables in the webhook's address and headers by property values of a node. It
// escapes values in the address: each fills one place in path or query.
func (w *Webhook) Expand(values PropertyValues) (*Webhook, error) {
	out := *w
	t, err := ParseTemplate(w.URL, false)
	if err != nil {
		return nil, err
	}
	if out.URL, err = t.expand(values, escapeForURL); err != nil {
		return nil, err
	}
	for _, s := range []*Secret{&out.Secret, &out.Token} {
		if s.Text == "" {
			continue
		}
		if t, err = ParseTemplate(s.Text, false); err != nil {
			return nil, err
		}
		if s.Text, err = t.Expand(values); err != nil {
			return nil, err
		}
	}
	out.Headers = make(map[string]string, len(w.Headers))
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		t, err := ParseTemplate(w.Headers[name], false)
		if err != nil {
			return nil, err
		}
		if out.Headers[name], err = t.Expand(values); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// escapeForURL escapes a value for one segment of a path or one value of a query.
func escapeForURL(value string) string {
	switch value { // these words would change the path
	case ".", "..":
		return strings.ReplaceAll(value, ".", "%2E")
	}
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// Check returns the first error in the templates or the address of a webhook, or nil. With an error it returns
// the name of the wrong field.
func (w *Webhook) Check() (field string, err error) {
	probe := func(value string) (*url.URL, error) {
		t, err := ParseTemplate(w.URL, false)
		if err != nil {
			return nil, err
		}
		return url.Parse(t.fillVariables(value))
	}
	one, err := probe("a")
	if err != nil {
		return "url", err
	}
	two, err := probe("b")
	if err != nil {
		return "url", err
	}
	if one.Scheme != "http" && one.Scheme != "https" || one.Host == "" {
		return "url", errNoWebServer
	}
	if one.Scheme != two.Scheme || one.Host != two.Host || one.User.String() != two.User.String() {
		return "url", ErrHostVaries
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		if _, err := ParseTemplate(w.Headers[name], false); err != nil {
			return "headers." + name, err
		}
	}
	if _, err := ParseTemplate(w.Secret.Text, false); err != nil {
		return "secret", err
	}
	return "", nil
}

var (
	errNoWebServer = errors.New("is not the address of a web server")
	// ErrHostVaries reports an address in which a node's property could choose the server to call.
	ErrHostVaries = errors.New("a property may fill path and query, but not the server")
)
