package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

// flagError turns pflag's error into one that names the nearest flag, or the values that a flag takes.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	e := model.Errorf(model.Invalid, "%w", err)
	switch {
	case errors.As(err, &unknown) && c.Name() == "describe" && strings.Contains("output", unknown.GetSpecifiedName()):
		return model.Errorf(model.Invalid, "describe has no -o: it writes for people").WithHint("for programs: muster get KIND NAME -o json")
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		e = model.Errorf(model.Invalid, "unknown flag --%s", name)
		if near := nearestFlag(c, name); near != "" {
			return e.WithHint("did you mean %s? All flags: %s --help", near, c.CommandPath())
		}
	case errors.As(err, &unknown):
		e = model.Errorf(model.Invalid, "unknown flag -%s", unknown.GetSpecifiedName()[:1])
	case errors.As(err, &none):
		text := "--" + none.GetFlag().Name + " needs a value"
		if _, example := flagType(none.GetFlag()); example != "" {
			text += ", such as " + example
		}
		e = model.Errorf(model.Invalid, "%s", text)
	case errors.As(err, &value):
		e = model.Errorf(model.Invalid, "--%s: %w", value.GetFlag().Name, valueError(value))
	}
	return e.WithHint("all flags: %s --help", c.CommandPath())
}

// valueError replaces the errors of package strconv, which are for programmers.
func valueError(e *pflag.InvalidValueError) error {
	f := e.GetFlag()
	if f.Value.Type() == "bool" {
		return model.Errorf(model.Invalid, "%q is neither true nor false", e.GetValue())
	}
	if name, example := flagType(f); name != "" {
		return model.Errorf(model.Invalid, "%q is no %s, such as %s", e.GetValue(), name, example)
	}
	return e.Unwrap()
}

// flagType returns the type of a flag in words, and an example: its default, unless that is empty.
// An unknown type has no name.
func flagType(f *pflag.Flag) (name, example string) {
	switch f.Value.Type() {
	case "int", "int64":
		name, example = "whole number", "2"
	case "uint64":
		name, example = "whole number from 0 on", "1"
	case "float64":
		name, example = "number", "0.5"
	case "float64Slice":
		name, example = "list of numbers with commas between them", "1,2,4"
	case "duration":
		name, example = "time with its unit", "30s"
	}
	if d := f.DefValue; name != "" && !slices.Contains([]string{"", "0", "0s", "[]"}, d) {
		example = d
	}
	return name, example
}

// nearestFlag returns the flag for a word of another program, the flag with the same beginning, or
// the one that differs by a typing error.
func nearestFlag(c *cobra.Command, word string) string {
	for _, foreign := range [][3]string{{"json", "output", "-o json"}, {"yaml", "output", "-o yaml"}, {"wide", "output", "-o wide"},
		{"force", "yes", "--yes"}, {"filename", "file", "--file"}, {"labels", "selector", "--selector"}} {
		if word == foreign[0] && c.Flags().Lookup(foreign[1]) != nil {
			return foreign[2]
		}
	}
	var names []string
	nearest := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if min(len(word), len(f.Name)) > 2 && (strings.HasPrefix(f.Name, word) || strings.HasPrefix(word, f.Name)) && (nearest == "" || len(f.Name) < len(nearest)) {
			nearest = f.Name
		}
	})
	if nearest == "" {
		nearest = model.Nearest(word, names)
	}
	if nearest != "" {
		nearest = "--" + nearest
	}
	return nearest
}
