package sensuimport_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuimport"
	"github.com/muster-fleet/muster/internal/testenv"
)

// sampleKinds maps the types in the samples to the kinds that an import makes of them.
var sampleKinds = map[string]string{
	"CheckConfig": "Check", "Handler": "Handler", "TCPStreamHandler": "Handler", "Pipeline": "Pipeline", "EventFilter": "Filter", "Mutator": "Mutator",
	"HookConfig": "Hook", "Asset": "Asset", "Entity": "Node", "EntityConfig": "Node", "Silenced": "Silence", "Secret": "Secret", "Namespace": "Namespace",
}

// TestSamplesAreImported imports sample files of Sensu resources, written in the various forms that users
// publish. Each object becomes a resource, or a note names it. Each loss has file, line and reason; a sample
// lists its losses in comments "# lost: LINE TEXT".
func TestSamplesAreImported(t *testing.T) {
	files := testenv.Value(filepath.Glob("testdata/samples/*.yaml"))(t)
	if len(files) == 0 {
		t.Fatal("there are no samples")
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data := testenv.Value(os.ReadFile(name))(t)
			result := testenv.Value(sensuimport.Import([]conversion.File{{Name: filepath.Base(name), Data: data}}, kind.All(), noon))(t)
			made := map[string]bool{}
			for _, r := range result.Resources {
				made[r.Kind+"/"+cmp.Or(r.Metadata.Namespace, "default")+"/"+r.Metadata.Name] = true
				if err := kind.All().Check(r).Err(); err != nil {
					t.Errorf("%s %s: %v", r.Kind, r.Metadata.Name, err)
				}
			}
			noted := map[string]bool{}
			for _, n := range result.Notes {
				noted[n.Subject] = true
			}
			for i, text := range regexp.MustCompile(`(?m)^---\n`).Split(string(data), -1) {
				var o struct {
					Type     string
					Metadata struct{ Name, Namespace string }
					Spec     struct{ Type any }
				}
				testenv.NoError(t, yaml.Unmarshal([]byte(text), &o))
				if o.Type == "" {
					continue // the comment at the beginning
				}
				want, name := sampleKinds[o.Type], strings.ReplaceAll(o.Metadata.Name, "*", "all")
				if o.Spec.Type == "set" {
					want, name = "Pipeline", sensuimport.PipelineOf(name)
				}
				title := strings.TrimSpace(o.Type + " " + strings.TrimPrefix(o.Metadata.Namespace+"/"+o.Metadata.Name, "/"))
				if key := want + "/" + cmp.Or(o.Metadata.Namespace, "default") + "/" + model.CleanName(name); !made[key] && !noted[title] {
					t.Errorf("object %d, %s %s: no %s", i, o.Type, o.Metadata.Name, key)
				}
			}
			lost := map[string]bool{}
			for _, m := range regexp.MustCompile(`(?m)^# lost: (.+)$`).FindAllStringSubmatch(string(data), -1) {
				lost[m[1]] = false
			}
			for _, n := range result.Notes {
				if !n.NotImported {
					continue
				}
				known := false
				for text := range lost {
					line, words, _ := strings.Cut(text, " ")
					if n.Where == filepath.Base(name)+":"+line && strings.Contains(n.Text, words) {
						lost[text], known = true, true
					}
				}
				if !known {
					t.Errorf("%s: %s: %s", n.Where, n.Subject, n.Text)
				}
			}
			for text, found := range lost {
				if !found {
					t.Errorf("no such loss: %s", text)
				}
			}
		})
	}
}
