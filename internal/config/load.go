package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// Field describes one setting of the server by its name, default and help text. They are read from the struct tags.
type Field struct {
	Name, Default, Unit, Doc string
	Reload                   bool
	index                    int
}

// Env returns the name of the environment variable for the setting.
func (f Field) Env() string { return "MUSTER_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) }

// Fields returns all settings, in the order of the fields of the struct Server.
func Fields() []Field {
	t := reflect.TypeFor[Server]()
	fields := make([]Field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		fields = append(fields, Field{
			Name: tag.Get("name"), Default: tag.Get("default"), Unit: tag.Get("unit"),
			Doc: tag.Get("doc"), Reload: tag.Get("reload") == "yes", index: i,
		})
	}
	return fields
}

// AddFlags adds --config and a flag for every setting to a flag set. If `only` is given, only those settings get a flag.
func AddFlags(flags *pflag.FlagSet, only ...string) {
	flags.String("config", "", "file with settings (YAML); see docs/reference/configuration.md")
	for _, f := range Fields() {
		if len(only) > 0 && !slices.Contains(only, f.Name) {
			continue
		}
		usage := f.Doc
		if f.Unit != "" {
			usage += " In " + f.Unit + "."
		}
		flags.String(f.Name, f.Default, usage)
		flags.Lookup(f.Name).DefValue = f.Default
	}
}

// Load reads the settings from flags, environment, file and defaults. The first of these sources that has a setting
// wins; --config or MUSTER_CONFIG names the file. The error names every problem with its place.
func Load(flags *pflag.FlagSet, getenv func(string) string) (*Server, error) {
	s := &Server{}
	var problems []error
	set := func(f Field, text, where string) {
		if err := setFieldFromText(reflect.ValueOf(s).Elem().Field(f.index), text); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", where, f.Name, err))
		}
	}
	for _, f := range Fields() {
		if f.Default != "" {
			set(f, f.Default, "default")
		}
	}
	path, _ := flags.GetString("config")
	if path == "" {
		path = getenv("MUSTER_CONFIG")
	}
	if path != "" {
		if data, err := os.ReadFile(path); err != nil {
			problems = append(problems, fmt.Errorf("read the settings file: %w", err))
		} else {
			problems = append(problems, parseSettingsFile(path, data, set)...)
		}
	}
	for _, f := range Fields() {
		if text := getenv(f.Env()); text != "" {
			set(f, text, "environment "+f.Env())
		}
		if flags.Changed(f.Name) {
			text, _ := flags.GetString(f.Name)
			set(f, text, "flag --"+f.Name)
		}
	}
	problems = append(problems, s.validate()...)
	if len(problems) > 0 {
		return nil, model.Errorf(model.Invalid, "the configuration is invalid: %w", errors.Join(problems...)).
			WithHint("all settings: muster server --help, docs/reference/configuration.md")
	}
	return s, nil
}

// otherVariables are the endings of variables that Muster's other programs read.
var otherVariables = [...]string{"CONFIG", "SERVER", "TOKEN", "CA", "CONTEXT", "MESSAGE", "FLAGS"}

// MisspeltVariables returns environment variables that look like misspelt settings. Each has the most similar setting.
// Variables that resemble no setting belong to other programs.
func MisspeltVariables(environ []string) map[string]string {
	known := otherVariables[:]
	for _, f := range Fields() {
		known = append(known, strings.TrimPrefix(f.Env(), "MUSTER_"))
	}
	meant := map[string]string{}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		word, ours := strings.CutPrefix(name, "MUSTER_")
		if near := model.Nearest(word, known[len(otherVariables):]); ours && near != "" && !slices.Contains(known, word) {
			meant[name] = "MUSTER_" + near
		}
	}
	return meant
}

// parseSettingsFile parses a YAML file of settings, and calls set for each setting.
func parseSettingsFile(path string, data []byte, set func(f Field, text, where string)) []error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: expected lines such as listen: 127.0.0.1:4242 (name: value)", path, root.Line)}
	}
	byName, names := map[string]Field{}, []string(nil)
	for _, f := range Fields() {
		byName[f.Name], names = f, append(names, f.Name)
	}
	var problems []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		where := fmt.Sprintf("%s:%d", path, key.Line)
		f, ok := byName[key.Value]
		switch {
		case !ok:
			hint := ""
			if near := model.Nearest(key.Value, names); near != "" {
				hint = fmt.Sprintf("; did you mean %q?", near)
			}
			problems = append(problems, fmt.Errorf("%s: unknown setting %q%s", where, key.Value, hint))
		case value.Kind == yaml.SequenceNode:
			items := make([]string, len(value.Content))
			for j, item := range value.Content {
				items[j] = item.Value
			}
			set(f, strings.Join(items, ","), where)
		case value.Kind == yaml.ScalarNode:
			set(f, value.Value, where)
		default:
			problems = append(problems, fmt.Errorf("%s: setting %s: expected a single value", where, f.Name))
		}
	}
	return problems
}

// setFieldFromText parses a text by the type of a setting, and stores the value in the setting.
func setFieldFromText(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *[]string:
		*p = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*p = append(*p, item)
			}
		}
	case *model.Size:
		size, err := model.ParseSize(text)
		if err != nil {
			return err
		}
		*p = size
	case *model.Duration:
		d, err := model.ParseDuration(text)
		if err != nil {
			return err
		}
		*p = d
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is invalid: expected a whole number, 0 or more", text)
		}
		*p = n
	case *float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is invalid: expected a number, 0 or more", text)
		}
		*p = n
	default:
		panic(fmt.Sprintf("BUG: config: cannot read a %s", v.Type()))
	}
	return nil
}

// Settings returns the current settings by name, with passwords redacted. Passwords inside database addresses are
// hidden; all other values are safe to show.
func (s *Server) Settings() map[string]string {
	out := map[string]string{}
	for _, f := range Fields() {
		text := fmt.Sprint(reflect.ValueOf(s).Elem().Field(f.index).Interface())
		out[f.Name] = redactDatabaseAddress(text)
	}
	return out
}

// redactDatabaseAddress removes user, password and parameters from the address of a database.
func redactDatabaseAddress(text string) string {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "postgres://…"
	}
	return "postgres://…@" + u.Host + u.Path
}

// Reference returns the text of the reference page of all settings, docs/reference/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Configuration of the server\n\nFlags override the environment, the environment overrides the file (`--config FILE`, YAML, `name: value`),\nand the file overrides the defaults. Unknown names are errors. This page is generated from the code.\n\n")
	b.WriteString("| setting | default | meaning | restart |\n|---|---|---|---|\n")
	for _, f := range Fields() {
		restart, doc := "yes", f.Doc
		if f.Reload {
			restart = "no: SIGHUP"
		}
		if f.Unit != "" {
			doc += " In " + f.Unit + "."
		}
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		fmt.Fprintf(&b, "| `--%s`<br>`%s` | %s | %s | %s |\n", f.Name, f.Env(), def, doc, restart)
	}
	return b.String()
}
