package sensuimport

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// platformsText formats the platforms of an asset's builds as text for comparisons.
func platformsText(list []model.AssetBuild) string {
	var out []string
	for i := range list {
		out = append(out, list[i].Platform())
	}
	return strings.Join(out, ", ")
}

// TestAssetFiltersBecomePlatforms imports assets with usual filters and expects builds for the right platforms.
func TestAssetFiltersBecomePlatforms(t *testing.T) {
	major := "entity.system.platform_version.split('.')[0]"
	for source, want := range map[string]string{
		``:     "any machine",
		`true`: "any machine",
		`entity.system.os == 'linux'; entity.system.arch == 'amd64'`:                    "linux amd64",
		`"linux" === entity.system['os'] && entity.system.arch == "arm64"`:              "linux arm64",
		`entity.system.arch == 'amd64' || entity.system.arch == '386'`:                  "amd64, 386",
		`entity.system.platform == 'redhat'`:                                            "redhat, rhel",
		`entity.system.platform_family == 'debian'`:                                     "debian, ubuntu, linuxmint, raspbian",
		`entity.system.platform_family == 'debian'; entity.system.platform == 'ubuntu'`: "ubuntu",
		`entity.system.platform_family == 'rhel'; entity.system.platform == 'ubuntu'`:   "",
		`entity.system.platform == 'debian'; parseInt(` + major + `) == 12`:             "debian 12",
		`parseInt(entity.system.platform_version) === 9`:                                "9",
		`parseInt(entity.system.platform_version, 10) == "9"`:                           "9",
		major + ` == '9'; entity.system.platform_version == '9.4'`:                      "9.4",
		major + ` == '9'; entity.system.platform_version == '10.4'`:                     "",
		`entity.system.os == 'linux'; entity.system.os == 'windows'`:                    "",
		`entity.system.os == 'darwin' || false`:                                         "darwin",
		`parseInt(` + major + `) >= 8`:                                                  ">=8",
		`7 < parseInt(entity.system.platform_version) && parseInt(` + major + `) <= 9`:  ">=8,<10",
		`parseInt(` + major + `) < 8; parseInt(` + major + `) > 7`:                      "",
		`parseInt(` + major + `) > 6; entity.system.platform_version == '9.4'`:          "9.4",
		`entity.system.arch == 'arm'; entity.system.arm_version == 7`:                   "armv7",
		`entity.system.arm_version == 6; entity.system.os == 'linux'`:                   "linux armv6",
		`entity.system.arch == 'amd64'; entity.system.arm_version == 7`:                 "",
		`entity.system.arm_version == 6; entity.system.arm_version == 7`:                "",
		major + ` == '6'; parseInt(` + major + `) > 6`:                                  "",
	} {
		var filters []string
		if source != "" {
			filters = strings.Split(source, "; ")
		}
		list, _, err := platformsOf(filters)
		if got := platformsText(list); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", source, got, err, want)
		}
	}
	for source, want := range map[string]string{
		`entity.system.os != 'windows'`:                             "a build can only test os",
		`!(entity.system.os == 'windows')`:                          "a build can only test os",
		`entity.labels.site == 'a'`:                                 "a build can only test os",
		major + ` >= 8`:                                             "a build can only compare the first number",
		`entity.system.platform_version > 7`:                        "a build can only compare the first number",
		`entity.system.platform_version.match(/^7/)`:                "a build can only test os",
		`entity.system.platform_version.indexOf('7.') == 0`:         "a build can only test os",
		major + ` === 7`:                                            "never equals",
		`parseInt(` + major + `) === '7'`:                           "never equals",
		major + ` == '07'`:                                          "never equals",
		major + ` == 'x'`:                                           "is not a whole number",
		`entity.system.arm_version == 0`:                            "arm_version is 5, 6 or 7",
		`entity.system.libc_type == 'musl'`:                         "cannot test libc_type",
		`entity.system.platform == 'Microsoft Windows 10'`:          "one word",
		`entity.system.platform == ''`:                              "one word",
		`entity.system.platform_family == 'Standalone'`:             "unknown family of distributions Standalone",
		`entity.system.os = 'linux'`:                                "a build can only test os",
		`entity.system.os == `:                                      "Unexpected end of input",
		`entity.system.os == 'linux'; while (true) {}`:              "is not one expression",
		strings.Repeat("true && ", maxExpression) + "true":          "is too long",
		strings.Repeat("entity.system.os == 'a' || ", 300) + "true": "more than 256",
	} {
		if _, _, err := platformsOf(strings.Split(source, "; ")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// TestAttributesInvertConditions converts conditions to Sensu expressions and back, and expects the same conditions.
// Attributes refuses the other conditions.
func TestAttributesInvertConditions(t *testing.T) {
	for _, where := range []string{
		`node.labels["kind"] == "switch"`,
		`(node.labels["kind"] == "switch" || node.labels["site"] != "lab") && node.name.matches("^sw") && "net" in node.groups`,
		`node.name.startsWith("a && b") && node.facts["os"] == "linux"`,
		`node.labels["rack"].contains("7") || !("db" in node.groups)`,
		`node.labels["rack"] != ""`,
		`node.namespace == "default"`,
	} {
		expressions, ok := EntityAttributes(where)
		back, err := nodeCondition(expressions)
		if !ok || err != nil || back != where {
			t.Errorf("%s: %q, %v; read back: %s %v", where, expressions, ok, back, err)
		}
	}
	for _, where := range []string{``, `size(node.groups) > 2`, `node.labels.exists(k, k == "x")`, `"node.name" == "x"`, `(`, `node.name == "`, `node.labels["a"] == "b" &&`} {
		if expressions, ok := EntityAttributes(where); ok {
			t.Errorf("%s: %q", where, expressions)
		}
	}
}
