package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// TechniqueSpec is a list of configuration methods, such as required packages and file contents, as in Rudder.
// The methods keep that part as declared, such as a file's content or a package. Directives apply it with their
// own values of its parameters.
type TechniqueSpec struct {
	// Its purpose, for people.
	Description string `json:"description,omitempty"`
	// Values that a directive gives. Methods read them as {{ .params.NAME }}.
	Parameters []Parameter `json:"parameters,omitempty"`
	// The methods in the order in which they run. Each is one component of the report.
	Methods []Method `json:"methods"`
	// Several directives of it run on one node. Default false: of those that policies put on a node one overrides the others.
	MultiInstance bool `json:"multiInstance,omitempty"`
}

// Kind returns the name of the resource kind, Technique.
func (*TechniqueSpec) Kind() string { return "Technique" }

// Parameter is a typed parameter of a technique, for which each directive gives a value.
type Parameter struct {
	// Its name: letters, digits, _ and -. Methods read it as {{ .params.NAME }}.
	Name string `json:"name"`
	// string (default), integer, boolean, list, map or secret. A component repeats over a list or map by forEach. The elements of a list
	// are texts, or maps that have a name. A map has texts. The value of secret is the name of a Secret: content, lines and value of file
	// methods may read its value, which no report, plan or log shows.
	Type string `json:"type,omitempty"`
	// The value for directives that give none; without it every directive has to give one.
	Default *ParameterValue `json:"default,omitempty"`
	// The only values that it, or each element, may have.
	OneOf []Scalar `json:"oneOf,omitempty"`
	// A regular expression that the whole value, or each element, has to match.
	Pattern string `json:"pattern,omitempty"`
	// The smallest number of an integer, or of the elements of a list or map.
	Min *int `json:"min,omitempty"`
	// The largest number of an integer, or of the elements of a list or map.
	Max *int `json:"max,omitempty"`
	// Its meaning, for people.
	Description string `json:"description,omitempty"`
}

// SecretParameter is the type of a parameter whose value is the name of a Secret.
const SecretParameter = "secret"

// IsLoop reports whether components can loop over the parameter, that is, a list or map.
func (p *Parameter) IsLoop() bool { return p.Type == "list" || p.Type == "map" }

// Method is one component (checked part) of a technique, such as a required file content. Such a method is a
// file's content. In audit mode a method checks and never changes anything. In enforce mode it checks, applies
// the missing part, and checks again. It has more than 25 fields because each kind of method is one.
type Method struct {
	// The name of the component in reports, unique within the technique or block.
	Component string `json:"component"`
	// A condition; while it is false the component is not applicable. It reads the components before it, as in
	// changed("NAME"), ok("NAME") and failed("NAME"), and facts, as in facts["os"] == "linux" and
	// facts["distributionVersion"].startsWith("22."), with true, false, !, && and ||. The name of a block or loop stands for
	// all its components: one of them changed, one failed, or none failed and one is ok.
	When string `json:"when,omitempty"`
	// The name of a list or map parameter: the component stands once for each element, as NAME[ELEMENT]. Its texts have {{ .item }},
	// {{ .item.FIELD }} of a list of maps, and {{ .item.key }} and {{ .item.value }} of a map. In a loop in a loop {{ .item.outer }} is the
	// element of the outer loop, with the same fields.
	ForEach string `json:"forEach,omitempty"`
	// audit or enforce, in place of the mode of the directive, also for the components of a block. Node, namespace and agent may
	// still allow audits alone. Default: the mode of the block around, else of the directive.
	Mode string `json:"mode,omitempty"`
	// How the components of a block count in the compliance: weighted (default): each of them; worst-case-weighted-sum: each of
	// them with the worst status; worst-case-weighted-one: the worst status once; focus: the component that focus names;
	// focus-worst: the component with the lowest compliance; disabled: none. A component without a block may be disabled.
	Reporting string `json:"reporting,omitempty"`
	// The component of the block that counts, with reporting: focus.
	Focus string `json:"focus,omitempty"`
	// Components that share name, condition and loop. Reports name them BLOCK/COMPONENT.
	Block []Method `json:"block,omitempty"`
	// A file with exactly this content.
	FileContent *FileContentMethod `json:"fileContent,omitempty"`
	// A file that exists, empty if it is made.
	FilePresent *PathMethod `json:"filePresent,omitempty"`
	// A file that does not exist.
	FileAbsent *PathMethod `json:"fileAbsent,omitempty"`
	// Lines that are in a file, in any place.
	FileLines *FileLinesMethod `json:"fileLines,omitempty"`
	// One setting of a file: its key and value on one line.
	FileKeyValue *FileKeyValueMethod `json:"fileKeyValue,omitempty"`
	// A block of lines between two marks in a file.
	FileBlock *FileBlockMethod `json:"fileBlock,omitempty"`
	// One setting in a section of an ini file.
	FileIni *FileIniMethod `json:"fileIni,omitempty"`
	// A symbolic link.
	Symlink *SymlinkMethod `json:"symlink,omitempty"`
	// Mode, owner and group of a file or folder.
	FilePermissions *FilePermissionsMethod `json:"filePermissions,omitempty"`
	// Entries of the access control list of a file or folder.
	FileACL *FileACLMethod `json:"fileACL,omitempty"`
	// A folder that exists.
	Directory *PathMethod `json:"directory,omitempty"`
	// A command that checks, and a command that applies.
	Command *CommandMethod `json:"command,omitempty"`
	// A package of apt, dnf, zypper or apk.
	Package *PackageMethod `json:"package,omitempty"`
	// A service of systemd or System V.
	Service *ServiceMethod `json:"service,omitempty"`
	// A kernel parameter.
	Sysctl *SysctlMethod `json:"sysctl,omitempty"`
	// A module of the kernel.
	KernelModule *KernelModuleMethod `json:"kernelModule,omitempty"`
	// A user of the machine.
	User *UserMethod `json:"user,omitempty"`
	// A group of users.
	UserGroup *UserGroupMethod `json:"userGroup,omitempty"`
	// A job of cron.
	Cron *CronMethod `json:"cron,omitempty"`
	// A timer of systemd with its service.
	Timer *TimerMethod `json:"timer,omitempty"`
	// An HTTP answer, which only a person or another component can repair.
	HTTP *HTTPMethod `json:"http,omitempty"`
	// A condition that is true.
	Report *ReportMethod `json:"report,omitempty"`
	// A component that Rudder's agents run and report. All components of a technique have this method, or none: docs/from-rudder.md.
	Rudder *RudderMethod `json:"rudder,omitempty"`
}

// PathMethod is the argument of policy methods that need only the path of a file or folder.
type PathMethod struct {
	// The absolute path.
	Path string `json:"path"`
}

// FileContentMethod requires a file to have exactly the given content. Mode, owner and access control list of an
// existing file stay; another hard link to the old file keeps the old content.
type FileContentMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// The whole content; default an empty file.
	Content string `json:"content,omitempty"`
	// An Asset of the same namespace or shared/NAME, whose archive has the content in place of the field content. The agent fetches the
	// archive once, verifies its hash and keeps it.
	Asset string `json:"asset,omitempty" ref:"Asset"`
	// The path of the content in the archive.
	File string `json:"file,omitempty"`
	// The file in the archive has {{ .params.NAME }}.
	Template bool `json:"template,omitempty"`
}

// FileLinesMethod requires a file to contain certain lines, or to lack certain lines. Other lines stay. Missing lines
// are appended.
type FileLinesMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// The lines, without line breaks. The value of a variable may have line breaks and is several lines then.
	Lines []string `json:"lines"`
	// The file must have none of the lines.
	Absent bool `json:"absent,omitempty"`
}

// FileKeyValueMethod requires a file to have one line KEY SEPARATOR VALUE for a key. A line with the key and another
// value is replaced, else the line is appended.
type FileKeyValueMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// The key at the start of the line.
	Key string `json:"key"`
	// The value.
	Value string `json:"value"`
	// The text between key and value; default =. White space around it is not compared.
	Separator string `json:"separator,omitempty"`
}

// FileBlockMethod requires a file to contain a block of lines between two marker lines. The lines are "# BEGIN NAME"
// and "# END NAME". Other lines stay. A missing block is appended.
type FileBlockMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// The name in the two marks, such as proxy settings.
	Name string `json:"name"`
	// The lines of the block.
	Content string `json:"content,omitempty"`
	// The beginning of a comment in the file; default #.
	Comment string `json:"comment,omitempty"`
	// The file must not have the block.
	Absent bool `json:"absent,omitempty"`
}

// FileIniMethod requires an ini file to have the line KEY = VALUE in a section. Another value is replaced; a missing
// key is added to the end of its section, and a missing section to the end of the file.
type FileIniMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// The name of the section, without brackets; default: the lines before the first section.
	Section string `json:"section,omitempty"`
	// The key.
	Key string `json:"key"`
	// The value.
	Value string `json:"value"`
}

// SymlinkMethod requires a symbolic link to a given target. Anything else at its path is an error.
type SymlinkMethod struct {
	// The absolute path of the link.
	Path string `json:"path"`
	// The path that it leads to, as the link says it.
	Target string `json:"target"`
}

// KernelModuleMethod requires a kernel module to be loaded, now and at each start, or not to be loaded. The start
// reads /etc/modules-load.d/60-muster.conf.
type KernelModuleMethod struct {
	// The name, such as br_netfilter.
	Name string `json:"name"`
	// loaded (default) or absent.
	State string `json:"state,omitempty"`
}

// UserMethod requires a user in /etc/passwd, changed by useradd, usermod and userdel. A home directory is neither made
// nor removed.
type UserMethod struct {
	// The name.
	Name string `json:"name"`
	// present (default) or absent.
	State string `json:"state,omitempty"`
	// The number of the user; default not compared.
	UID string `json:"uid,omitempty"`
	// The name or number of the primary group; default not compared.
	Group string `json:"group,omitempty"`
	// The path of the home directory; default not compared.
	Home string `json:"home,omitempty"`
	// The login shell; default not compared.
	Shell string `json:"shell,omitempty"`
}

// UserGroupMethod requires a group in /etc/group, changed by groupadd, groupmod and groupdel.
type UserGroupMethod struct {
	// The name.
	Name string `json:"name"`
	// present (default) or absent.
	State string `json:"state,omitempty"`
	// The number of the group; default not compared.
	GID string `json:"gid,omitempty"`
}

// CronMethod requires one cron job in the file /etc/cron.d/NAME.
type CronMethod struct {
	// The name of the file: letters, digits, _ and -, because cron reads no other names.
	Name string `json:"name"`
	// present (default) or absent.
	State string `json:"state,omitempty"`
	// The five fields of cron, such as "15 3 * * *", or a word such as @daily.
	Schedule string `json:"schedule,omitempty"`
	// The user that runs the job; default root.
	User string `json:"user,omitempty"`
	// The command, on one line, for the shell. Cron reads % as a line break: write \%.
	Command string `json:"command,omitempty"`
}

// HTTPMethod requires a URL to answer a GET request as expected, within ten seconds.
type HTTPMethod struct {
	// The URL, http or https.
	URL string `json:"url"`
	// The status code; default 200.
	Status int `json:"status,omitempty"`
	// A text that the first MiB of the answer contains.
	Contains string `json:"contains,omitempty"`
}

// ReportMethod reports a message as a failure unless a condition is true.
type ReportMethod struct {
	// The condition, as in when.
	If string `json:"if"`
	// The message if the condition is false.
	Message string `json:"message"`
}

// RudderMethod is a component that Rudder's agents run, not Muster's agents. Reports name it by its id, else by
// component and value.
type RudderMethod struct {
	// The method in Rudder, such as package_present, for people.
	Method string `json:"method,omitempty"`
	// The id of the method in Rudder's technique.
	ID string `json:"id,omitempty"`
	// The name of the component in Rudder; default the name here. Used without id.
	Component string `json:"component,omitempty"`
	// The value of the component in reports; default None. ${…} in it stands for any text. Used without id.
	Value string `json:"value,omitempty"`
}

// FilePermissionsMethod requires the given mode, owner and group of a file or folder. Empty fields are not compared.
type FilePermissionsMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// The permission bits in octal, as in "0644".
	Mode string `json:"mode,omitempty"`
	// The name or number of the user.
	Owner string `json:"owner,omitempty"`
	// The name or number of the group.
	Group string `json:"group,omitempty"`
}

// FileACLMethod requires a file or folder to have certain entries in its access control list. The program getfacl
// reads it, and setfacl sets it. Other entries stay.
type FileACLMethod struct {
	// The absolute path.
	Path string `json:"path"`
	// Entries such as user:ada:r-x, group:staff:rw- or default:user:ada:r-x.
	Entries []string `json:"entries,omitempty"`
	// It has no entries beyond its mode.
	Absent bool `json:"absent,omitempty"`
}

// TimerMethod requires a systemd timer with its service, NAME.timer and NAME.service. Systemd starts the timer with
// the machine.
type TimerMethod struct {
	// The name of both units, without a suffix.
	Name string `json:"name"`
	// present (default) or absent.
	State string `json:"state,omitempty"`
	// The times of its runs as OnCalendar= has them, such as daily or "Mon *-*-* 03:00:00".
	Calendar string `json:"calendar,omitempty"`
	// The user that runs the command; default root.
	User string `json:"user,omitempty"`
	// The command, on one line, for the shell.
	Command string `json:"command,omitempty"`
}

// CommandMethod checks a node by a command, and changes the node by another command. A string is run by the shell, a
// list without one.
type CommandMethod struct {
	// Must change nothing, for it runs in both modes. Exit code 0: compliant; any other: not.
	Check *Command `json:"check,omitempty"`
	// Runs in enforce mode alone: when the check fails or, without a check, on each run.
	Apply *Command `json:"apply,omitempty"`
}

// PackageMethod requires a package to be installed, or not, by the machine's package manager. The managers are dpkg
// with apt-get, rpm with dnf, zypper or yum, and apk.
type PackageMethod struct {
	// The name of the package.
	Name string `json:"name"`
	// present (default) or absent.
	State string `json:"state,omitempty"`
	// The exact version, of rpm with or without its epoch; default any.
	Version string `json:"version,omitempty"`
}

// ServiceMethod requires a service of systemd or System V to be in a given state. At least one of state and boot is
// given.
type ServiceMethod struct {
	// The name of the unit; .service may be left out. Of System V: of the init script.
	Name string `json:"name"`
	// running or stopped; default not compared.
	State string `json:"state,omitempty"`
	// Whether it starts with the machine: enabled or disabled; default not compared.
	Boot string `json:"boot,omitempty"`
}

// SysctlMethod requires a kernel parameter to have a given value. In enforce mode it is also written to
// /etc/sysctl.d/60-muster.conf, so that it stays after a restart.
type SysctlMethod struct {
	// The key, such as net.ipv4.ip_forward.
	Key string `json:"key"`
	// The value.
	Value string `json:"value"`
}

// DirectiveSpec is a technique (a list of methods) with values for its parameters. It
// lands on the nodes of the policies that name it.
type DirectiveSpec struct {
	// The Technique, of the same namespace or shared/NAME.
	Technique string `json:"technique" ref:"Technique"`
	// Values of the technique's parameters by name. They may hold {{ .props.NAME | default "…" }}, a property of the node.
	Parameters map[string]ParameterValue `json:"parameters,omitempty"`
	// The id of the directive in Rudder. Rudder's agents run it and Muster's never do: their reports are compared with the components
	// of the technique, which have the method rudder.
	Rudder string `json:"rudder,omitempty"`
	// audit: compare and report alone. enforce: repair, where node, namespace and agent (--policy-enforce) allow it. Default: the
	// mode of the node, else of its namespace, else audit.
	Mode string `json:"mode,omitempty"`
	// facts: it enforces also on nodes that a policy selects by facts, or by labels and groups of their agents. Default: there it
	// only audits, because a machine can choose these; it enforces on nodes that targets name, and in trusted and assigned groups.
	Trusted string `json:"trusted,omitempty"`
	// From 0 to 10, default 5. Of several directives of a technique on a node the one with the smallest priority runs, then the
	// one whose policy, then whose own name comes first. It overrides the others, unless the technique is multiInstance.
	Priority *int `json:"priority,omitempty"`
	// How often it runs on each node, at a fixed offset per node; default 5m.
	Interval Duration `json:"interval,omitempty"`
	// The times of its runs in place of an interval: minute, hour, day, month and weekday as in "0 3 * * 6". A new directive awaits
	// its time, too.
	Cron string `json:"cron,omitempty"`
	// The time zone of cron, such as Europe/Paris; default UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// The directive is a one-shot: each node runs it once, in place of an interval. oneShot: {} means as soon as the node has it. A change
	// of the components, values or mode, or of this field, makes it run once more; muster run --directive runs it at any time.
	OneShot *OneShotSpec `json:"oneShot,omitempty"`
	// The time after each time of cron, or after oneShot.from, over which the nodes spread their runs, each at a fixed offset; default 0s.
	Splay Duration `json:"splay,omitempty"`
	// The compliance mode changes-only: an agent reports a run that differs from the run reported before it or that repaired something,
	// and of equal runs one in this time; at most 24h. Without a report for this time and five minutes the status is no report.
	// Default: the agent reports each run.
	Heartbeat Duration `json:"heartbeat,omitempty"`
	// How long a node that newly gets the directive, or a changed one, may take to comply before it is a problem; default 0s. It counts
	// as not compliant meanwhile.
	Grace Duration `json:"grace,omitempty"`
	// The longest time of one run; default 5m. Components that it did not reach are reported as missing.
	Timeout Duration `json:"timeout,omitempty"`
	// The severity of its problem: information, warning, average (default), high or disaster.
	Severity string `json:"severity,omitempty"`
	// A change reaches the nodes in steps; default all nodes at once. A new directive has no earlier version, so all nodes get it.
	Rollout *RolloutSpec `json:"rollout,omitempty"`
	// It runs nowhere while this is true.
	Disabled bool `json:"disabled,omitempty"`
}

// Kind returns the name of the resource kind, Directive.
func (*DirectiveSpec) Kind() string { return "Directive" }

// OneShotSpec is the time in which each node runs a one-shot directive.
type OneShotSpec struct {
	// The time from which nodes run it, by the server's clock; default at once.
	From Time `json:"from,omitzero"`
	// The time from which no node begins it any more; default none. A node without a run by then is no report.
	Until Time `json:"until,omitzero"`
}

// PolicySpec lists directives and the nodes for the directives.
type PolicySpec struct {
	// The directives, of the same namespace or shared/NAME.
	Directives []string `json:"directives" ref:"Directive"`
	// The nodes that they are put on; default none.
	Targets *Targets `json:"targets,omitempty"`
	// The receivers of notifications, for a node that is not compliant. Policies that share a directive must agree.
	Alert *PolicyAlert `json:"alert,omitempty"`
	// It puts nothing on nodes while this is true.
	Disabled bool `json:"disabled,omitempty"`
}

// PolicyAlert names the handlers or the route that are notified of problems of a policy's directives.
type PolicyAlert struct {
	// The Route that notifies, of the same namespace or shared/NAME; default all matching routes.
	Route string `json:"route,omitempty" ref:"Route"`
	// Handlers to notify at once when a problem opens and closes, in place of a route.
	Handlers []string `json:"handlers,omitempty" ref:"Handler"`
}

// Kind returns the name of the resource kind, Policy.
func (*PolicySpec) Kind() string { return "Policy" }

// QualifyReferences returns a copy of the alert settings in which handlers and route are written
// NAMESPACE/NAME.
func (a *PolicyAlert) QualifyReferences(namespace string) *PolicyAlert {
	out := *a
	qualifyReferences(&out, namespace)
	return &out
}

// Modes of a directive.
const (
	ModeAudit   = "audit"
	ModeEnforce = "enforce"
)

// TrustedFacts is the value of trusted with which a directive enforces on nodes that facts select.
const TrustedFacts = "facts"

// Defaults of a directive.
const (
	DefaultPolicyInterval = 5 * time.Minute
	DefaultPolicyTimeout  = 5 * time.Minute
	DefaultPriority       = 5
)

// Scalar is a text value that resource files may also write as a number, true or false.
type Scalar string

// UnmarshalJSON decodes a text, number or boolean as text.
func (s *Scalar) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && (data[0] == '{' || data[0] == '[') || string(data) == "null" {
		return fmt.Errorf("expected a text, number, true or false")
	}
	*s = Scalar(propertyText(data))
	return nil
}

// ParameterValue is the value of a parameter, either a text, a list or a map.
type ParameterValue struct {
	Text     Scalar
	Elements []LoopItem // of a map by ascending key; nil: Text is the value
	Map      bool       // the value is a map, not a list
}

// LoopItem is one element of a list or map, for which a component of a technique runs once. A map has key and
// value; a text in a list has the empty name.
type LoopItem map[string]Scalar

// Name returns the text that identifies the loop element, such as its map key. It is its text, its key, or its
// field name.
func (e LoopItem) Name() string {
	for _, field := range []string{"", "key", "name"} {
		if text, ok := e[field]; ok {
			return string(text)
		}
	}
	return ""
}

// TextValue makes a parameter value of a text.
func TextValue(text string) ParameterValue { return ParameterValue{Text: Scalar(text)} }

// UnmarshalJSON decodes a parameter value from a text, number, boolean, list or map.
func (v *ParameterValue) UnmarshalJSON(data []byte) error {
	*v = ParameterValue{}
	switch data = bytes.TrimSpace(data); {
	case bytes.HasPrefix(data, []byte("[")):
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		v.Elements = make([]LoopItem, len(list))
		for i, raw := range list {
			if bytes.HasPrefix(raw, []byte("{")) {
				if err := json.Unmarshal(raw, &v.Elements[i]); err != nil {
					return err
				}
				continue
			}
			var text Scalar
			if err := json.Unmarshal(raw, &text); err != nil {
				return err
			}
			v.Elements[i] = LoopItem{"": text}
		}
		return nil
	case bytes.HasPrefix(data, []byte("{")):
		var fields map[string]Scalar
		if err := json.Unmarshal(data, &fields); err != nil {
			return err
		}
		v.Map, v.Elements = true, make([]LoopItem, 0, len(fields))
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			v.Elements = append(v.Elements, LoopItem{"key": Scalar(key), "value": fields[key]})
		}
		return nil
	}
	return v.Text.UnmarshalJSON(data)
}

// MarshalJSON encodes the value in the form of resource files.
func (v ParameterValue) MarshalJSON() ([]byte, error) {
	switch {
	case v.Elements == nil:
		return json.Marshal(v.Text)
	case v.Map:
		fields := make(map[string]Scalar, len(v.Elements))
		for _, e := range v.Elements {
			fields[string(e["key"])] = e["value"]
		}
		return json.Marshal(fields)
	}
	list := make([]any, len(v.Elements))
	for i, e := range v.Elements {
		if list[i] = e; len(e) == 1 {
			if text, ok := e[""]; ok {
				list[i] = text
			}
		}
	}
	return json.Marshal(list)
}

// String formats the value of the parameter for people. It is a text, or a list or map in JSON.
func (v ParameterValue) String() string {
	if v.Elements == nil {
		return string(v.Text)
	}
	data, _ := v.MarshalJSON() // texts always encode
	return string(data)
}

// Selected returns name and arguments of the one policy method, such as fileContent, that the component sets. A
// valid component sets exactly one, or has a block instead.
func (m *Method) Selected() (names []string, arguments []any) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			names, arguments = append(names, jsonName(v.Type().Field(i))), append(arguments, f.Interface())
		}
	}
	return names, arguments
}

// EachMethod calls visit for each component and block of a technique, also inside blocks.
func EachMethod(methods []Method, field string, visit func(field string, m *Method)) {
	for i := range methods {
		at := fmt.Sprintf("%s[%d]", field, i)
		visit(at, &methods[i])
		EachMethod(methods[i].Block, at+".block", visit)
	}
}

// NewMethod decodes a policy method from its name and JSON arguments in a compiled component.
func NewMethod(name string, arguments []byte) (*Method, error) {
	m := &Method{}
	err := json.Unmarshal(fmt.Appendf(nil, "{%q:%s}", name, arguments), m)
	if names, _ := m.Selected(); err == nil && len(names) != 1 {
		err = fmt.Errorf("unknown method %q", name)
	}
	return m, err
}
