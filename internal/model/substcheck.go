package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// FieldError is a template error with the place it stands in, such as command,
// command[2], probe.args.path or env.HOME.
type FieldError struct {
	Field string
	Err   *TemplateError
}

func (e *FieldError) Error() string { return e.Field + ", " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// CommandTemplate is a command, probe arguments and environment with their variables
// found; made once per chunk, expanded once per assignment.
type CommandTemplate struct {
	shell *Template
	argv  []*Template
	probe string
	args  map[string]*Template
	env   map[string]*Template
	runAs *Template
	names []string
}

// ExpandedCommand is what really runs on one node.
type ExpandedCommand struct {
	Shell string
	Argv  []string
	Probe string
	Args  map[string]string
	Env   map[string]string
	RunAs string
}

// ParseCommandTemplate finds the variables of a check or handler. The error joins a
// *FieldError for each string that is wrong.
func ParseCommandTemplate(command *Command, probe *Probe, env map[string]string, runAs string) (*CommandTemplate, error) {
	t := &CommandTemplate{}
	var errs []error
	parse := func(text string, shell bool, field string, args ...any) *Template {
		parsed, err := ParseTemplate(text, shell)
		if err != nil {
			var wrong *TemplateError
			errors.As(err, &wrong)
			errs = append(errs, &FieldError{fmt.Sprintf(field, args...), wrong})
			return nil
		}
		for _, name := range parsed.Names() {
			if !slices.Contains(t.names, name) {
				t.names = append(t.names, name)
			}
		}
		return parsed
	}
	switch {
	case command != nil && command.Argv != nil:
		for i, arg := range command.Argv {
			t.argv = append(t.argv, parse(arg, false, "command[%d]", i))
		}
	case command != nil:
		t.shell = parse(command.Shell, true, "command")
	case probe != nil:
		t.probe = probe.Name
		t.args = make(map[string]*Template, len(probe.Args))
		for _, key := range slices.Sorted(maps.Keys(probe.Args)) {
			t.args[key] = parse(probe.Args[key], false, "probe.args.%s", key)
		}
	}
	t.env = make(map[string]*Template, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		t.env[key] = parse(env[key], false, "env.%s", key)
	}
	t.runAs = parse(runAs, false, "runAs")
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.Sort(t.names)
	return t, nil
}

// Template finds the variables of the chunk.
func (c *Chunk) Template() (*CommandTemplate, error) {
	return ParseCommandTemplate(c.Command, c.Probe, c.Env, c.RunAs)
}

// Names lists the properties used, sorted.
func (t *CommandTemplate) Names() []string { return t.names }

// Expand puts the node's values in place. The error is a *MissingError.
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
	out := ExpandedCommand{Shell: expand(t.shell), Probe: t.probe, RunAs: expand(t.runAs)}
	for _, arg := range t.argv {
		out.Argv = append(out.Argv, expand(arg))
	}
	out.Args, out.Env = expandMap(t.args), expandMap(t.env)
	return out, failed
}
