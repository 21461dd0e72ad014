package house

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// notFuzzed are the files whose decoders need no fuzz target, with the trusted origin of their input.
var notFuzzed = map[string]string{
	"internal/offline/reset_password.go":            "a file that only the server's own user may write",
	"internal/watchdog/result_sender.go":            "a certificate of the same function",
	"internal/doctor/server_findings.go":            "answers of the admin listener of this machine",
	"internal/doctor/doctor.go":                     "certificates of the server's own folder",
	"internal/intent/enrolment_batch.go":            "rows of the server's own database",
	"internal/intent/read_resources_and_audit.go":   "rows of the server's own database",
	"internal/intent/resource_owner.go":             "rows of the server's own database",
	"internal/kind/explain.go":                      "Go source of this program",
	"internal/intent/node_tombstone.go":             "rows of the server's own database",
	"internal/intent/delete_expired_records.go":     "rows of the server's own database",
	"internal/access/service.go":                    "rows of the server's own database",
	"internal/api/problems/deleted_node_events.go":  "rows of the server's own database",
	"internal/api/resources/resources.go":           "resources that the server encoded itself",
	"internal/cli/doctor.go":                        "answers of the admin listener of this machine",
	"internal/cli/silence.go":                       "a resource as the user's own server answers it",
	"internal/api/list/paging_and_filters.go":       "rows of the same package",
	"internal/plan/definition_store.go":             "rows of the server's own database",
	"internal/dispatch/deliver.go":                  "events of the same package, in the server's own database",
	"internal/load/compare/differences.go":          "a scenario of the same function",
	"internal/load/report/goal.go":                  "words of the command line",
	"internal/load/simulated/certificate.go":        "files that the load tester wrote",
	"internal/load/subject/environment.go":          "the build of the server that the load tester started",
	"internal/pipeline/event/check_output_store.go": "the server's own memory; FuzzDecodeSection covers decodeState, which validates the bytes of a snapshot",
	"internal/testenv/fake_and_real_vault.go":       "answers of a program that a test started",
}

// decoderCalls are the calls that make a function a decoder, independent of its name.
var decoderCalls = []string{"json.Unmarshal", "json.NewDecoder", "yaml.Unmarshal", "pem.Decode", "binary.Uvarint", "x509.ParseCertificateRequest"}

var decoderName = regexp.MustCompile(`^(Parse|parse|Decode|decode|Unmarshal|unmarshal)`)

// TestEveryDecoderIsFuzzed fails if no fuzz target of a package reaches one of its decoders. A decoder reads text or
// bytes from outside. The test finds decoders by name, and follows any number of calls.
func TestEveryDecoderIsFuzzed(t *testing.T) {
	type function struct {
		file    string
		decoder bool
		names   map[string]bool // that its body mentions
	}
	packages := map[string]map[string][]*function{} // folder → name → functions and methods of it
	for _, f := range goFiles(t) {
		dir := filepath.Dir(f.path)
		if !strings.HasPrefix(dir, "internal/") {
			continue
		}
		if packages[dir] == nil {
			packages[dir] = map[string][]*function{}
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			one := &function{file: f.path, decoder: decoderName.MatchString(fn.Name.Name) && takesText(fn), names: map[string]bool{}}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					one.names[n.Name] = true
				case *ast.CallExpr:
					for _, name := range decoderCalls {
						one.decoder = one.decoder || calls(n, name)
					}
				}
				return true
			})
			one.decoder = one.decoder && !strings.HasSuffix(f.path, "_test.go")
			packages[dir][fn.Name.Name] = append(packages[dir][fn.Name.Name], one)
		}
	}
	excused := map[string]bool{}
	for _, functions := range packages {
		reached := map[string]bool{}
		var walk func(name string)
		walk = func(name string) {
			if reached[name] {
				return
			}
			reached[name] = true
			for _, fn := range functions[name] {
				for next := range fn.names {
					if functions[next] != nil {
						walk(next)
					}
				}
			}
		}
		for name := range functions {
			if strings.HasPrefix(name, "Fuzz") {
				walk(name)
			}
		}
		for name, list := range functions {
			for _, fn := range list {
				switch {
				case !fn.decoder || reached[name]:
				case notFuzzed[fn.file] != "":
					excused[fn.file] = true
				default:
					t.Errorf("%s: no fuzz target reaches the decoder %s", fn.file, name)
				}
			}
		}
	}
	for file, why := range notFuzzed {
		if !excused[file] {
			t.Errorf("notFuzzed lists %s (%s), which has no decoder without a fuzz target", file, why)
		}
	}
}

// takesText reports whether a parameter is []byte or string.
func takesText(fn *ast.FuncDecl) bool {
	for _, p := range fn.Type.Params.List {
		switch kind := p.Type.(type) {
		case *ast.Ident:
			if kind.Name == "string" {
				return true
			}
		case *ast.ArrayType:
			if of, ok := kind.Elt.(*ast.Ident); ok && kind.Len == nil && of.Name == "byte" {
				return true
			}
		}
	}
	return false
}
