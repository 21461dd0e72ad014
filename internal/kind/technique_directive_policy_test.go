package kind

import "testing"

// TestTechniqueIsValidated validates faulty policy techniques, and expects an error about each faulty field.
func TestTechniqueIsValidated(t *testing.T) {
	for yaml, want := range map[string]string{
		"methods: [{component: a, filePresent: {path: /etc/motd}}]": "",
		"methods: []":                                                                                                              "spec.methods: missing",
		"methods: [{component: a}]":                                                                                                "the method is missing",
		"methods: [{filePresent: {path: /a}}]":                                                                                     "spec.methods[0].component: missing",
		"methods: [{component: a, filePresent: {path: motd}}]":                                                                     "is not absolute",
		"methods: [{component: a, fileContents: {path: /a}}]":                                                                      "fileContent",
		"methods: [{component: a, filePermissions: {path: /a}}]":                                                                   "nothing to compare",
		"methods: [{component: a, filePermissions: {path: /a, mode: rw}}]":                                                         "write it in octal",
		"methods: [{component: a, service: {name: ssh, state: up}}]":                                                               "write running or stopped",
		"methods: [{component: a, package: {name: ssh, state: absent, version: \"1\"}}]":                                           "an absent package has no version",
		"methods: [{component: a, command: {}}]":                                                                                   "the command is missing",
		"methods: [{component: a, sysctl: {key: net/ipv4, value: \"1\"}}]":                                                         "invalid key",
		"methods: [{component: a, fileBlock: {path: /a, content: x}}]":                                                             "fileBlock.name: missing",
		"methods: [{component: a, fileBlock: {path: /a, name: x, content: x, absent: true}}]":                                      "an absent block has no content",
		"methods: [{component: a, fileIni: {path: /a, section: '[s]', key: k, value: v}}]":                                         "has brackets",
		"methods: [{component: a, symlink: {path: /a}}]":                                                                           "write the path that the link leads to",
		"methods: [{component: a, user: {name: web, uid: web}}]":                                                                   "is no number",
		"methods: [{component: a, user: {name: web, state: absent, shell: /bin/sh}}]":                                              "an absent user has only a name",
		"methods: [{component: a, kernelModule: {name: x, state: present}}]":                                                       "write loaded or absent",
		"methods: [{component: a, userGroup: {name: web, gid: '{{ .props.gid }}'}}]":                                               "",
		"methods: [{component: a, cron: {name: x, command: 'true'}}]":                                                              "spec.methods[0].cron.schedule: missing",
		"methods: [{component: a, cron: {name: x, schedule: '* * *', command: 'true'}}]":                                           "has not five fields",
		"methods: [{component: a, timer: {name: x, command: 'true'}}]":                                                             "timer.calendar: missing",
		"methods: [{component: a, timer: {name: x, state: absent, command: 'true'}}]":                                              "an absent timer has only a name",
		"methods: [{component: a, fileACL: {path: /a, entries: ['user:ada:rx']}}]":                                                 "is no entry of an access control list",
		"methods: [{component: a, fileACL: {path: /a}}]":                                                                           "fileACL.entries: missing",
		"methods: [{component: a, fileACL: {path: /a, entries: ['default:group:{{ .props.g }}:r-x']}}]":                            "",
		"methods: [{component: a, http: {url: localhost}}]":                                                                        "is no URL of HTTP",
		"methods: [{component: a, http: {url: 'http://localhost', status: 99}}]":                                                   "is no status code",
		"methods: [{component: a, filePresent: {path: /a}, fileAbsent: {path: /a}}]":                                               "exclude each other",
		"methods: [{component: a, filePresent: {path: /a}}, {component: a, filePresent: {path: /b}}]":                              "component \"a\" occurs twice",
		"methods: [{component: a, filePresent: {path: '/{{ .params.x }}'}}]":                                                       "no parameter \"x\"",
		"methods: [{component: a, filePresent: {path: '/{{ .name }}'}}]":                                                           "the only variable",
		"methods: [{component: a, when: 'ok(\"b\")', filePresent: {path: /a}}]":                                                    "no component \"b\" runs before",
		"methods: [{component: a, when: 'done(\"b\")', filePresent: {path: /a}}]":                                                  "spec.methods[0].when: condition",
		"parameters: [{name: x, type: number}]\n  methods: [{component: a, filePresent: {path: /a}}]":                              "write string or integer or boolean or list or map",
		"parameters: [{name: x, oneOf: [1, 2], default: 3}]\n  methods: [{component: a, filePresent: {path: /a}}]":                 "is not one of the allowed values",
		"parameters: [{name: x, pattern: '('}]\n  methods: [{component: a, filePresent: {path: /a}}]":                              "is not a regular expression",
		"parameters: [{name: x y}]\n  methods: [{component: a, filePresent: {path: /a}}]":                                          "spec.parameters[0].name",
		"parameters: [{name: x, type: integer, default: 7}]\n  methods: [{component: a, filePresent: {path: '/{{ .params.x }}'}}]": "",
		"methods: [{component: a, block: [{component: b, filePresent: {path: /a}}, {component: c, when: 'ok(\"b\")', filePresent: {path: /b}}]}, {component: d, when: 'ok(\"a\") && ok(\"a/b\")', filePresent: {path: /c}}]": "",
		"methods: [{component: a, block: [{component: b, filePresent: {path: /a}}]}, {component: c, when: 'ok(\"b\")', filePresent: {path: /b}}]":                                                                            "no component \"b\" runs before",
		"methods: [{component: a, block: []}]": "spec.methods[0].block: missing",
		"methods: [{component: a, filePresent: {path: /a}, block: [{component: b, filePresent: {path: /a}}]}]":                                                                     "block and filePresent exclude each other",
		"methods: [{component: a, reporting: focus, block: [{component: b, filePresent: {path: /a}}]}]":                                                                            "spec.methods[0].focus: missing",
		"methods: [{component: a, reporting: focus, focus: c, block: [{component: b, filePresent: {path: /a}}]}]":                                                                  "the block has no component \"c\"",
		"methods: [{component: a, reporting: worst, block: [{component: b, filePresent: {path: /a}}]}]":                                                                            "unknown value \"worst\"",
		"methods: [{component: a, reporting: focus-worst, filePresent: {path: /a}}]":                                                                                               "is a mode of blocks",
		"methods: [{component: a, reporting: disabled, filePresent: {path: /a}}]":                                                                                                  "",
		"methods: [{component: a, filePresent: {path: '/{{ .item }}'}}]":                                                                                                           "outside of a loop",
		"methods: [{component: a, forEach: x, filePresent: {path: '/{{ .item }}'}}]":                                                                                               "no parameter \"x\"",
		"parameters: [{name: x}]\n  methods: [{component: a, forEach: x, filePresent: {path: '/{{ .item }}'}}]":                                                                    "is no list and no map",
		"parameters: [{name: x, type: list}]\n  methods: [{component: a, filePresent: {path: '/{{ .params.x }}'}}]":                                                                "write forEach: x and use",
		"parameters: [{name: x, type: list}]\n  methods: [{component: a, forEach: x, block: [{component: b, forEach: x, filePresent: {path: '/{{ .item }}/{{ .item.outer }}'}}]}]": "",
		"parameters: [{name: x, type: list, min: 1, default: [a, b]}]\n  methods: [{component: a, forEach: x, filePresent: {path: '/{{ .item }}'}}]":                               "",
		"parameters: [{name: x, min: 1}]\n  methods: [{component: a, filePresent: {path: /a}}]":                                                                                    "write type: integer, list or map",
		"parameters: [{name: x, type: integer, min: 2, max: 1}]\n  methods: [{component: a, filePresent: {path: /a}}]":                                                             "2 is above max",
		"methods: [{component: a, mode: audit, filePresent: {path: /a}}, {component: b, mode: enforce, block: [{component: c, mode: audit, filePresent: {path: /b}}]}]":            "",
		"methods: [{component: a, mode: repair, filePresent: {path: /a}}]":                                                                                                         "write audit or enforce",
		"methods: [{component: a, mode: audit, rudder: {id: x}}]":                                                                                                                  "Rudder decides in which mode",
		"methods: [{component: a, fileContent: {path: /a, asset: files, file: etc/a, template: true}}]":                                                                            "",
		"methods: [{component: a, fileContent: {path: /a, asset: files}}]":                                                                                                         "fileContent.file: missing",
		"methods: [{component: a, fileContent: {path: /a, asset: files, file: a, content: x}}]":                                                                                    "content and asset exclude each other",
		"methods: [{component: a, fileContent: {path: /a, file: a}}]":                                                                                                              "file and template are those of an asset",
		"parameters: [{name: x, type: secret}]\n  methods: [{component: a, fileLines: {path: /a, lines: ['{{ .params.x }}']}}]":                                                    "",
		"parameters: [{name: x, type: secret}]\n  methods: [{component: a, fileContent: {path: '/{{ .params.x }}', content: x}}]":                                                  "the secret x would show in reports",
		"parameters: [{name: x, type: secret}]\n  methods: [{component: a, command: {apply: 'passwd {{ .params.x }}'}}]":                                                           "the secret x would show in reports",
		"parameters: [{name: x, type: secret, pattern: a}]\n  methods: [{component: a, filePresent: {path: /a}}]":                                                                  "nobody tests a secret value",
		"methods: [{component: a, rudder: {id: x}}, {component: b, block: [{component: c, rudder: {component: d, value: e}}]}]":                                                    "",
		"methods: [{component: a, rudder: {id: x}}, {component: b, filePresent: {path: /a}}]":                                                                                      "all components of a technique or none",
		"methods: [{component: a, when: 'facts[\"os\"] == \"x\"', rudder: {id: x}}]":                                                                                               "Rudder's agents have the condition",
		"methods: [{component: a, rudder: {id: x, value: y}}]":                                                                                                                     "by the id alone",
	} {
		assertValidationError(t, decodeInvalidSpec("Technique", "\n  "+yaml), want)
	}
}

// TestDirectivesAndPoliciesAreValidated validates faulty directives and policies, and expects an error about each
// faulty field.
func TestDirectivesAndPoliciesAreValidated(t *testing.T) {
	for yaml, want := range map[string]string{
		"technique: sshd\n  parameters: {port: 22, root: \"no\", on: true, list: '{{ .props.list }}'}":       "",
		"technique: sshd\n  parameters: {ports: [22, {name: a, port: 1}], users: {ada: 1}}":                  "",
		"technique: sshd\n  parameters: {ports: [[22]]}":                                                     "expected a text, number, true or false",
		"technique: sshd\n  parameters: {ports: ['{{ .x }}']}":                                               "spec.parameters.ports[0]: column 1",
		"technique: sshd\n  parameters: {port: '{{ .x }}'}":                                                  "spec.parameters.port: column 1",
		"technique: sshd\n  cron: 0 3 * * 6\n  timeZone: Europe/Paris\n  splay: 1h":                          "",
		"technique: sshd\n  cron: 0 3 * *":                                                                   "expected five fields",
		"technique: sshd\n  cron: 0 3 * * *\n  interval: 5m":                                                 "interval and cron exclude each other",
		"technique: sshd\n  splay: 1h":                                                                       "spec.splay: has no effect without cron",
		"technique: sshd\n  cron: 0 3 * * *\n  rollout: {steps: [10%]}":                                      "which a calendar delays",
		"technique: sshd\n  mode: force":                                                                     "write audit or enforce",
		"technique: sshd\n  priority: 11":                                                                    "expected 0 to 10",
		"technique: sshd\n  interval: 1s":                                                                    "spec.interval",
		"technique: sshd\n  grace: 31d":                                                                      "spec.grace",
		"technique: sshd\n  heartbeat: 1h":                                                                   "",
		"technique: sshd\n  heartbeat: 5m":                                                                   "each run would be reported",
		"technique: sshd\n  heartbeat: 2d":                                                                   "spec.heartbeat",
		"technique: sshd\n  heartbeat: 1h\n  cron: 0 3 * * *":                                                "heartbeat and cron exclude each other",
		"technique: sshd\n  heartbeat: 1h\n  rudder: d1":                                                     "set rudderReports of the Namespace",
		"technique: sshd\n  severity: bad":                                                                   "unknown severity",
		"technique: sshd\n  oneShot: {}":                                                                     "",
		"technique: sshd\n  oneShot: {from: 2026-12-24T02:00:00Z, until: 2026-12-24T06:00:00Z}\n  splay: 1h": "",
		"technique: sshd\n  oneShot: {from: 2026-12-24T02:00:00Z, until: 2026-12-24T03:00:00Z}\n  splay: 1h": "spec.oneShot.until: is not after from and splay",
		"technique: sshd\n  oneShot: {}\n  splay: 1h":                                                        "spec.splay: nodes spread their runs after a time only",
		"technique: sshd\n  oneShot: {}\n  interval: 1h":                                                     "oneShot excludes interval and cron",
		"technique: sshd\n  oneShot: {}\n  heartbeat: 1h":                                                    "heartbeat and oneShot exclude each other",
		"technique: sshd\n  oneShot: {}\n  rollout: {steps: [10%]}":                                          "a one-shot has no steps",
		"technique: sshd\n  oneShot: {}\n  rudder: d1":                                                       "Rudder decides when its agents run",
		"mode: audit":                                               "spec.technique: missing",
		"technique: sshd\n  rudder: d1":                             "",
		"technique: sshd\n  rudder: d1\n  mode: audit":              "Rudder decides in which mode",
		"technique: sshd\n  rudder: d1\n  rollout: {steps: [100%]}": "Rudder decides when",
	} {
		assertValidationError(t, decodeInvalidSpec("Directive", "\n  "+yaml), want)
	}
	for yaml, want := range map[string]string{
		"directives: [a, shared/b]\n  targets: {groups: [all]}": "",
		"targets: {groups: [all]}":                              "spec.directives: missing",
		"directives: [other/b]":                                 "belongs to another namespace",
		"directives: [a]\n  alert: {route: r, handlers: [h]}":   "exclude each other",
	} {
		assertValidationError(t, decodeInvalidSpec("Policy", "\n  "+yaml), want)
	}
}

// TestWaiversAreValidated validates faulty waivers, and expects an error about each faulty field.
func TestWaiversAreValidated(t *testing.T) {
	const rest = "\n  targets: {nodes: [db1]}\n  reason: old\n  owner: ada\n  expires: 2026-12-24T18:00:00Z"
	for yaml, want := range map[string]string{
		"directive: sshd\n  components: [a, b]" + rest:                       "",
		"technique: shared/sshd" + rest:                                      "",
		"components: [a]" + rest:                                             "the directive is missing",
		"directive: a\n  technique: b" + rest:                                "exclude each other",
		"directive: a\n  components: [a, a]" + rest:                          "component \"a\" occurs twice",
		"directive: a\n  reason: old\n  owner: ada\n  expires: 2026-12-24":   "is not a time",
		"directive: a\n  targets: {nodes: [db1]}":                            "spec.reason: missing",
		"directive: a\n  reason: old":                                        "spec.targets: missing",
		"directive: a\n  targets: {nodes: [db1]}\n  reason: old\n  owner: b": "spec.expires: missing",
		"directive: a\n  targets: {nodes: [db1]}\n  reason: old":             "spec.owner: missing",
	} {
		assertValidationError(t, decodeInvalidSpec("Waiver", "\n  "+yaml), want)
	}
}
