package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

// wrongFlag names the flag that was meant, or what a flag's value has to be.
func wrongFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && c.Name() == "describe" && strings.Contains("output", unknown.GetSpecifiedName()):
		return model.Errorf(model.Invalid, "a description is for people, and knows no -o").WithHint("for programs: muster get KIND NAME -o json")
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		e := model.Errorf(model.Invalid, "unknown flag --%s", name)
		if near := nearestFlag(c, name); near != "" {
			return e.WithHint("did you mean %s? all flags: %s --help", near, c.CommandPath())
		}
		return e.WithHint("all flags: %s --help", c.CommandPath())
	case errors.As(err, &unknown):
		return model.Errorf(model.Invalid, "unknown flag -%s", unknown.GetSpecifiedName()[:1]).WithHint("all flags: %s --help", c.CommandPath())
	case errors.As(err, &none):
		text := "--" + none.GetFlag().Name + " needs a value"
		if _, like := wanted(none.GetFlag()); like != "" {
			text += ", such as " + like
		}
		return model.Errorf(model.Invalid, "%s", text).WithHint("all flags: %s --help", c.CommandPath())
	case errors.As(err, &value):
		return model.Errorf(model.Invalid, "--%s: %w", value.GetFlag().Name, reason(value)).WithHint("all flags: %s --help", c.CommandPath())
	}
	return model.Errorf(model.Invalid, "%w", err).WithHint("all flags: %s --help", c.CommandPath())
}

// reason is why a value is none, in our words where the flag's own are Go's.
func reason(e *pflag.InvalidValueError) error {
	f := e.GetFlag()
	if f.Value.Type() == "bool" {
		return model.Errorf(model.Invalid, "%q is neither true nor false", e.GetValue())
	}
	if want, like := wanted(f); want != "" {
		return model.Errorf(model.Invalid, "%q is no %s, such as %s", e.GetValue(), want, like)
	}
	return e.Unwrap()
}

// wanted is what a flag takes, and an example: its default, where that says something. Empty: nothing
// is known of the kind.
func wanted(f *pflag.Flag) (want, like string) {
	switch f.Value.Type() {
	case "int", "int64":
		want, like = "whole number", "2"
	case "uint64":
		want, like = "whole number from 0 on", "1"
	case "float64":
		want, like = "number", "0.5"
	case "float64Slice":
		want, like = "list of numbers with commas between them", "1,2,4"
	case "duration":
		want, like = "time with its unit", "30s"
	}
	if d := f.DefValue; want != "" && !slices.Contains([]string{"", "0", "0s", "[]"}, d) {
		like = d
	}
	return want, like
}

// nearestFlag is what other programs' word means here, the flag that begins with the word
// or with which the word begins, or one that differs by a slip of the finger.
func nearestFlag(c *cobra.Command, word string) string {
	for _, other := range [][3]string{{"json", "output", "-o json"}, {"yaml", "output", "-o yaml"}, {"wide", "output", "-o wide"},
		{"force", "yes", "--yes"}, {"filename", "file", "--file"}, {"labels", "selector", "--selector"}} {
		if word == other[0] && c.Flags().Lookup(other[1]) != nil {
			return other[2]
		}
	}
	var names []string
	begins := ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if min(len(word), len(f.Name)) > 2 && (strings.HasPrefix(f.Name, word) || strings.HasPrefix(word, f.Name)) && (begins == "" || len(f.Name) < len(begins)) {
			begins = f.Name
		}
	})
	if begins == "" {
		begins = model.Nearest(word, names)
	}
	if begins != "" {
		begins = "--" + begins
	}
	return begins
}
