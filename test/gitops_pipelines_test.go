//go:build linux

package test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// gitOps is a copy of the example repository docs/examples/gitops, with its CI jobs. One of the CI pipeline files
// defines the jobs.
type gitOps struct {
	t     *testing.T
	s     *harness.Server
	repo  string
	jobs  map[string]job
	knows map[string]string // variables that the forge fills in
	flags string            // MUSTER_FLAGS of the run
}

// job is one job of a GitLab or GitHub pipeline. It has environment variables and shell scripts.
type job struct {
	env   map[string]string
	steps []string
}

// newGitOps copies the example repository for a test, and reads its GitLab or GitHub pipeline file.
func newGitOps(t *testing.T, read func(t *testing.T, file string) map[string]job, file string) *gitOps {
	t.Helper()
	p := &gitOps{t: t, s: harness.StartServer(t)}
	dir := t.TempDir()
	p.repo = filepath.Join(dir, "monitoring")
	example := filepath.Join(harness.Root(), "docs/examples/gitops")
	testenv.NoError(t, os.CopyFS(p.repo, os.DirFS(example)))
	linkBinary(t, dir)
	p.s.Client() // logs in
	p.jobs = read(t, filepath.Join(p.repo, file))
	token := func(role string) string {
		return strings.TrimSpace(p.s.CLI("auth", "token", "create", "--role", role, "--user", "pipeline", "--expires", "365d"))
	}
	ca := filepath.Join(p.s.Data, "pki/ca.crt")
	pem := readFile(t, ca)
	plan, apply, server := token("viewer"), token("admin"), "https://"+p.s.Listen
	p.knows = map[string]string{
		"MUSTER_SERVER": server, "MUSTER_CA": ca, "MUSTER_PLAN_TOKEN": plan, "MUSTER_APPLY_TOKEN": apply,
		"CI_COMMIT_TITLE": "disks of the web servers", "CI_COMMIT_SHORT_SHA": "1a2b3c4d",
		"vars.MUSTER_SERVER": server, "vars.MUSTER_CA_PEM": strings.TrimSpace(string(pem)),
		"secrets.MUSTER_PLAN_TOKEN": plan, "secrets.MUSTER_APPLY_TOKEN": apply,
		"github.event.head_commit.message": "disks of the web servers (1a2b3c4d)\n\nmore of it",
	}
	return p
}

// run runs the scripts of a CI job for a namespace, and returns output and exit code. It runs like a CI runner without
// a saved login.
func (p *gitOps) run(name, team string) (said string, code int) {
	p.t.Helper()
	j, ok := p.jobs[name]
	require(p.t, ok, "there is no job %s", name)
	dir := filepath.Dir(p.repo)
	env := map[string]string{
		"PATH": filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "RUNNER_TEMP": p.t.TempDir(), "TEAM": team,
		"GITHUB_ENV": filepath.Join(p.t.TempDir(), "env"), "GITHUB_STEP_SUMMARY": filepath.Join(p.t.TempDir(), "summary"),
	}
	for k, v := range p.knows {
		if !strings.Contains(k, ".") {
			env[k] = v
		}
	}
	forge := regexp.MustCompile(`\$\{\{ *([\w.]+) *\}\}`)
	for k, v := range j.env {
		v = forge.ReplaceAllStringFunc(v, func(s string) string { return p.knows[forge.FindStringSubmatch(s)[1]] })
		if !strings.Contains(v, "BEGIN CERTIFICATE") {
			v = os.Expand(v, func(name string) string { return p.knows[name] })
		}
		env[k] = v
	}
	env["TEAM"], env["MUSTER_FLAGS"] = team, p.flags
	var all strings.Builder
	for _, step := range j.steps {
		cmd := exec.CommandContext(p.t.Context(), "sh", "-ec", step)
		cmd.Dir = p.repo
		more, _ := os.ReadFile(env["GITHUB_ENV"])
		for line := range strings.Lines(string(more)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			env[k] = v
		}
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(&all, "%s", out)
		p.t.Logf("%s %s $ %s\n%s", name, team, step, out)
		if code = cmd.ProcessState.ExitCode(); code != 0 || err != nil {
			return all.String(), code
		}
	}
	return all.String(), 0
}

// expectJob runs a job of the CI pipeline, and expects an exit code and texts.
func (p *gitOps) expectJob(name, team string, code int, texts ...string) {
	p.t.Helper()
	said, got := p.run(name, team)
	require(p.t, got == code, "%s of %s: code %d, want %d\n%s", name, team, got, code, said)
	expectTexts(p.t, said, texts...)
}

// edit writes or removes a file in the test's repository. An empty text removes the file.
func (p *gitOps) edit(file, text string) {
	p.t.Helper()
	path := filepath.Join(p.repo, file)
	err := os.WriteFile(path, []byte(text), 0o600)
	if text == "" {
		err = os.Remove(path)
	}
	testenv.NoError(p.t, err)
}

// gitlabJobs returns the jobs of .gitlab-ci.yml. All lines of a script share one shell.
func gitlabJobs(t *testing.T, file string) map[string]job {
	t.Helper()
	var doc map[string]yaml.Node
	decodeFile(t, file, &doc)
	jobs := map[string]job{}
	for name, node := range doc {
		var j struct {
			Variables map[string]string
			Script    []string
		}
		if node.Kind == yaml.MappingNode && node.Decode(&j) == nil && len(j.Script) > 0 {
			jobs[name] = job{j.Variables, []string{strings.Join(j.Script, "\n")}}
		}
	}
	return jobs
}

// githubJobs returns the jobs of a GitHub workflow. Each `run` is a shell script.
func githubJobs(t *testing.T, file string) map[string]job {
	t.Helper()
	var doc struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct{ Run string }
		}
	}
	decodeFile(t, file, &doc)
	jobs := map[string]job{}
	for name, j := range doc.Jobs {
		one := job{env: j.Env}
		for _, step := range j.Steps {
			if step.Run != "" {
				one.steps = append(one.steps, step.Run)
			}
		}
		jobs[name] = one
	}
	return jobs
}

// decodeFile decodes a YAML file.
func decodeFile(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	require(t, err == nil, "%s: %v", file, err)
}

// The CI pipelines of docs/gitops.md apply the resources of their repository to a server.
func TestGitOpsPipelinesApplyTheirRepository(t *testing.T) {
	t.Parallel()
	for _, forge := range []struct {
		name, file string
		read       func(*testing.T, string) map[string]job
	}{{"GitLab", ".gitlab-ci.yml", gitlabJobs}, {"GitHub", ".github/workflows/muster.yml", githubJobs}} {
		t.Run(forge.name, func(t *testing.T) {
			t.Parallel()
			p := newGitOps(t, forge.read, forge.file)
			got := slices.Sorted(maps.Keys(p.jobs))
			require(t, slices.Equal(got, []string{"apply", "plan"}), "jobs %v", got)
			p.runWorkflow()
			p.s.Stop()
		})
	}
}

// runWorkflow runs the CI jobs of the GitOps page in order, from a review to a deletion.
func (p *gitOps) runWorkflow() {
	guarded, invalid := model.Guarded.Exit(), model.Invalid.Exit()
	nodes := func(from, to int) string {
		var b strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&b, "kind: Node\nmetadata: {name: web%02d, labels: {role: web}}\nspec: {}\n---\n", i)
		}
		return b.String()
	}
	p.s.Apply(nodes(0, 2) + "kind: Check\nmetadata: {name: by-hand}\nspec: {targets: {nodes: [web00]}, interval: 60s, command: 'true'}\n")

	// A first merge request, and the merge.
	p.expectJob("plan", "team-a", 0, "check/web-port would be created", "runs on 2 nodes", "+  owner: team-a")
	p.expectJob("plan", "team-b", 0, "namespace/shop would be created", "check/shop/queue would be created")
	p.s.Try("get", "checks", "-A").Expect(0).ExpectNot("web-port")
	p.expectJob("apply", "team-a", 0, "check/web-port created", "runs on 2 nodes")
	p.expectJob("apply", "team-b", 0, "check/shop/queue created")
	p.expectJob("plan", "team-a", 0, "check/web-port unchanged")
	p.expectJob("apply", "team-a", 0, "check/web-port unchanged")
	p.s.Try("audit", "check", "web-port").Expect(0, "pipeline from 127.0.0.1 for team-a created check/web-port: disks of the web servers (1a2b3c4d)\n")

	// A removed file deletes its resources; all other resources stay equal.
	others := p.s.CLI("get", "checks", "-A", "-o", "yaml", "-l", "!none")
	p.edit("team-a/checks/web.yaml", "")
	p.expectJob("plan", "team-a", 0, "check/web-port would be deleted   no longer declared; runs on 2 nodes")
	p.expectJob("apply", "team-a", 0, "pruning 1 resource of owner team-a:\n  check/web-port ", "check/web-port deleted")
	left := p.s.CLI("get", "checks", "-A", "-o", "yaml", "-l", "!none")
	for _, name := range []string{"by-hand", "queue", "disk-space"} {
		if part := resourceNamed(others, name); part == "" || part != resourceNamed(left, name) {
			p.t.Errorf("%s was\n%s\nand is\n%s", name, part, resourceNamed(left, name))
		}
	}
	assert(p.t, resourceNamed(left, "web-port") == "" && resourceNamed(others, "web-port") != "",
		"what was pruned is still there:\n%s", left)

	// A change of too many nodes: plan warns, apply refuses, a run with a flag applies it.
	p.s.Apply(nodes(2, 60))
	disk := readFile(p.t, filepath.Join(p.repo, "team-a/checks/disk.yaml"))
	p.edit("team-a/checks/disk.yaml", "")
	p.expectJob("plan", "team-a", guarded, "check/disk-space would be deleted", "apply would refuse this change: this change affects 60 nodes", "no longer declares: check/disk-space")
	p.expectJob("apply", "team-a", guarded, "check/disk-space   no longer declared; runs on 60 nodes", "muster: this change affects 60 nodes; a change of more than 50 nodes needs --yes")
	p.s.CLI("get", "check", "disk-space")
	p.flags = "--max-affected 60"
	p.expectJob("apply", "team-a", 0, "check/disk-space deleted")
	p.edit("team-a/checks/disk.yaml", string(disk))
	p.flags = "--yes"
	p.expectJob("apply", "team-a", 0, "check/disk-space created")
	p.flags = ""

	// Resources of another owner, an invalid file, and an empty folder are refused.
	p.edit("team-a/checks/theirs.yaml", "kind: Check\nmetadata: {name: queue, namespace: shop}\nspec: {interval: 1h, command: 'true'}\n")
	p.expectJob("plan", "team-a", guarded, "apply would refuse this change: check/shop/queue belongs to team-b")
	p.expectJob("apply", "team-a", guarded, "muster: check/shop/queue belongs to team-b; nothing was changed")
	p.edit("team-a/checks/theirs.yaml", "kind: Check\nmetadata: {name: typo}\nspec: {intervall: 1h, command: 'true'}\n")
	p.expectJob("plan", "team-a", invalid, "team-a/checks/theirs.yaml:3:8: spec.intervall: unknown field; did you mean interval?")
	p.expectJob("apply", "team-a", invalid, "did you mean interval?")
	p.edit("team-a/checks/theirs.yaml", "")
	shop := readFile(p.t, filepath.Join(p.repo, "team-b/shop.yaml"))
	p.edit("team-b/shop.yaml", "")
	p.expectJob("apply", "team-b", invalid, "no resources in ")
	p.edit("team-b/shop.yaml", string(shop))
	p.expectJob("apply", "team-b", 0, "check/shop/queue unchanged")

	// A change by hand is undone by the pipeline's next apply.
	p.edit("hand.yaml", strings.Replace(string(disk), "interval: 60s", "interval: 90s", 1))
	p.s.Try("apply", "-f", filepath.Join(p.repo, "hand.yaml"), "--yes").Expect(0, "warning: it belongs to team-a, whose next apply undoes")
	p.flags = "--yes"
	p.expectJob("apply", "team-a", 0, "check/disk-space updated")
	p.expectJob("plan", "team-a", 0, "check/disk-space unchanged")

	// The token of merge requests may not apply.
	p.knows["MUSTER_APPLY_TOKEN"], p.knows["secrets.MUSTER_APPLY_TOKEN"] = p.knows["MUSTER_PLAN_TOKEN"], p.knows["secrets.MUSTER_PLAN_TOKEN"]
	p.expectJob("apply", "team-a", model.Forbidden.Exit(), "pipeline may only read (role viewer)")
}

// resourceNamed returns the resource of the given name from the output of `get -o yaml`.
func resourceNamed(text, name string) string {
	for _, one := range regexp.MustCompile(`(?m)^---$|^- `).Split(text, -1) {
		if strings.Contains(one, "name: "+name+"\n") {
			return one
		}
	}
	return ""
}
