package rudderimport

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// mapKeys returns an iterator over the keys of a map.
func mapKeys(m map[string]string) iter.Seq[string] { return maps.Keys(m) }

// canonify replaces each byte except letters and digits by an underscore, as Rudder does in condition names.
func canonify(text string) string {
	out := []byte(text)
	for i, c := range out {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			out[i] = '_'
		}
	}
	return string(out)
}

// classPrefix returns the prefix that Rudder gives to the result conditions (classes) of a method.
func classPrefix(method string) string {
	switch method {
	case "file_content":
		return "file_lines_present"
	case "package_install_version":
		return "package_install"
	}
	return method
}

// currentName returns the present name of a method parameter that Rudder has renamed. Techniques of older
// releases have former names.
func currentName(method, parameter string) string {
	switch parameter {
	case "file", "file_name", "directory_name", "destination":
		return "path"
	case "package_name", "service_name", "module_name":
		return "name"
	case "package_version":
		return "version"
	case "target":
		if method == "file_present" || method == "file_absent" || method == "directory_present" {
			return "path"
		}
	case "group":
		if strings.HasPrefix(method, "group_") {
			return "name"
		}
	}
	return parameter
}

// classParameter returns the name of the method parameter whose value Rudder puts into condition (class) names.
func classParameter(method string) string {
	switch {
	case strings.HasPrefix(method, "file_"), strings.HasPrefix(method, "directory_"), method == "permissions":
		return "path"
	case strings.HasPrefix(method, "command_"), method == "audit_from_command":
		return "command"
	case strings.HasPrefix(method, "user_"):
		return "login"
	case strings.HasPrefix(method, "sysctl_"):
		return "key"
	case method == "report_if_condition":
		return "report_message"
	case strings.HasPrefix(method, "http_"):
		return "url"
	}
	return "name"
}

// unconvertedParameters has the parameters of a Rudder method whose values the import has not converted yet.
// convertMethod removes each parameter that it converts.
type unconvertedParameters map[string]string

// read returns the value of a Rudder method's parameter, and removes the parameter from the unconverted
// parameters.
func (a unconvertedParameters) read(name string) string {
	value := a[name]
	delete(a, name)
	return value
}

// dropDefault removes a parameter if its value means the same as Muster's default and needs no conversion.
func (a unconvertedParameters) dropDefault(name string, values ...string) {
	if value := a[name]; value == "" || slices.Contains(values, value) {
		delete(a, name)
	}
}

// octal matches the mode of a file in octal.
var octal = regexp.MustCompile(`^[0-7]{3,4}$`)

// convertMethod sets the method of a component (checked part of a technique) to the equivalent of Rudder's
// method. A Rudder method without an equivalent gives an error. The error says why there is none.
func convertMethod(m *model.Method, method string, parameters map[string]string) error {
	a := unconvertedParameters(maps.Clone(parameters))
	lines := func() []string { return strings.Split(strings.TrimRight(a.read("lines"), "\n"), "\n") }
	switch method {
	case "package_present", "package_install", "package_install_version", "package_absent", "package_state":
		p := &model.PackageMethod{Name: a.read("name")}
		state := a.read("state")
		if method == "package_absent" || state == "absent" {
			p.State = "absent"
		}
		if a["version"] == "latest" {
			return fmt.Errorf("version latest has no equivalent in Muster: write the version, or any")
		}
		a.dropDefault("version", "any")
		p.Version = a.read("version")
		a.dropDefault("architecture", "default", "any")
		a.dropDefault("provider", "default", "any")
		m.Package = p
	case "service_started", "service_stopped":
		m.Service = &model.ServiceMethod{Name: a.read("name"), State: map[string]string{"service_started": "running", "service_stopped": "stopped"}[method]}
	case "service_enabled", "service_disabled":
		m.Service = &model.ServiceMethod{Name: a.read("name"), Boot: strings.TrimPrefix(method, "service_")}
	case "file_present":
		m.FilePresent = &model.PathMethod{Path: a.read("path")}
	case "file_absent":
		m.FileAbsent = &model.PathMethod{Path: a.read("path")}
	case "directory_present":
		m.Directory = &model.PathMethod{Path: a.read("path")}
	case "package_check_installed":
		m.Package, m.Mode = &model.PackageMethod{Name: a.read("name")}, model.ModeAudit
	case "service_check_running":
		m.Service, m.Mode = &model.ServiceMethod{Name: a.read("name"), State: "running"}, model.ModeAudit
	case "service_check_started_at_boot", "service_check_disabled_at_boot":
		boot := map[bool]string{true: "enabled", false: "disabled"}[method == "service_check_started_at_boot"]
		m.Service, m.Mode = &model.ServiceMethod{Name: a.read("name"), Boot: boot}, model.ModeAudit
	case "file_check_exists", "file_check_regular":
		m.FilePresent, m.Mode = &model.PathMethod{Path: a.read("path")}, model.ModeAudit
	case "directory_check_exists":
		m.Directory, m.Mode = &model.PathMethod{Path: a.read("path")}, model.ModeAudit
	case "file_content":
		if a.read("enforce") == "true" {
			m.FileContent = &model.FileContentMethod{Path: a.read("path"), Content: strings.Join(lines(), "\n") + "\n"}
		} else {
			m.FileLines = &model.FileLinesMethod{Path: a.read("path"), Lines: lines()}
		}
	case "file_lines_present", "file_lines_absent":
		m.FileLines = &model.FileLinesMethod{Path: a.read("path"), Lines: lines(), Absent: method == "file_lines_absent"}
	case "file_key_value_present":
		m.FileKeyValue = &model.FileKeyValueMethod{Path: a.read("path"), Key: a.read("key"), Value: a.read("value"), Separator: a.read("separator")}
	case "file_key_value_present_in_ini_section":
		m.FileIni = &model.FileIniMethod{Path: a.read("path"), Section: a.read("section"), Key: a.read("name"), Value: a.read("value")}
	case "file_symlink_present", "symlink_present":
		m.Symlink = &model.SymlinkMethod{Path: a.read("path"), Target: a.read("source")}
	case "permissions":
		p := &model.FilePermissionsMethod{Path: a.read("path"), Mode: a.read("mode"), Owner: a.read("owner"), Group: a.read("group")}
		if p.Mode != "" && !octal.MatchString(p.Mode) && !strings.Contains(p.Mode, "{{") {
			return fmt.Errorf("mode %q is not in octal", p.Mode)
		}
		m.FilePermissions = p
	case "user_present", "user_absent":
		m.User = &model.UserMethod{Name: a.read("login"), State: strings.TrimPrefix(method, "user_")}
	case "user_uid":
		m.User = &model.UserMethod{Name: a.read("login"), UID: a.read("uid")}
	case "user_home":
		m.User = &model.UserMethod{Name: a.read("login"), Home: a.read("home")}
	case "user_shell":
		m.User = &model.UserMethod{Name: a.read("login"), Shell: a.read("shell")}
	case "user_primary_group":
		m.User = &model.UserMethod{Name: a.read("login"), Group: a.read("primary_group")}
	case "group_present", "group_absent":
		m.UserGroup = &model.UserGroupMethod{Name: a.read("name"), State: strings.TrimPrefix(method, "group_")}
	case "sysctl_value":
		m.Sysctl = &model.SysctlMethod{Key: a.read("key"), Value: a.read("value")}
		a.read("filename")
		a.dropDefault("option", "default", "Default")
	case "kernel_module_loaded":
		m.KernelModule = &model.KernelModuleMethod{Name: a.read("name")}
	case "kernel_module_not_loaded":
		m.KernelModule = &model.KernelModuleMethod{Name: a.read("name"), State: "absent"}
	case "command_execution":
		m.Command = &model.CommandMethod{Apply: shellCommand(a.read("command"))}
	case "audit_from_command":
		a.dropDefault("compliant_codes", "0")
		m.Command = &model.CommandMethod{Check: shellCommand(a.read("command"))}
	case "http_request_check_status_headers":
		h := &model.HTTPMethod{URL: a.read("url")}
		status, err := strconv.Atoi(cmp.Or(a.read("expected_status"), "200"))
		if err != nil {
			return fmt.Errorf("the expected HTTP status is not a number")
		}
		if h.Status = status; status == 200 {
			h.Status = 0
		}
		a.dropDefault("method", "GET", "get")
		m.HTTP = h
	case "report_if_condition":
		m.Report = &model.ReportMethod{If: a.read("condition"), Message: a.read("report_message")}
	default:
		return fmt.Errorf("method %q has no equivalent in Muster", method)
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != "" {
			return fmt.Errorf("parameter %s of method %s has no equivalent in Muster", name, method)
		}
	}
	return nil
}

// shellCommand returns a Muster command that passes one line to the shell.
func shellCommand(line string) *model.Command { return &model.Command{Shell: line} }
