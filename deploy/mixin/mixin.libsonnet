// The rules, alerts and dashboards of watchslo as a mixin for jsonnet: see docs/howto/formats.md.
//
// `rules.json` is generated (`make manifests`). The dashboards are those of the repository: install both folders.
local written = import 'rules.json';
local selector = 'job="watchslo"';
local runbooks = 'https://github.com/watchslo/watchslo/blob/v0.1.0/docs/runbooks';

{
  _config+:: {
    // Matchers of watchslo's targets.
    watchsloSelector: selector,
    // The base address of the runbooks.
    watchsloRunbooks: runbooks,
    // Which alerts there are: none, essential (those that page), or all.
    watchsloAlerts: 'essential',
    // The groups of `watchslo rules -o plain --alerts all`: replace them for objectives of your own.
    watchsloGroups: written.groups,
  },

  local config = self._config,
  local adapted(text) = std.strReplace(
    std.strReplace(text, selector, config.watchsloSelector), runbooks, config.watchsloRunbooks
  ),
  local adaptedRule(rule) = rule {
    expr: adapted(super.expr),
    [if 'annotations' in rule then 'annotations']: std.mapWithKey(function(_, text) adapted(text), rule.annotations),
  },
  local selected(rule) =
    !('alert' in rule)
    || config.watchsloAlerts == 'all'
    || config.watchsloAlerts == 'essential' && rule.labels.severity == 'critical',
  local groups(key) = [
    group
    for group in [
      group { rules: [adaptedRule(rule) for rule in group.rules if key in rule && selected(rule)] }
      for group in config.watchsloGroups
    ]
    if group.rules != []
  ],

  prometheusRules+:: { groups+: groups('record') },
  prometheusAlerts+:: { groups+: groups('alert') },

  grafanaDashboards+:: {
    'watchslo-apiserver.json': import '../../dashboards/watchslo-apiserver.json',
    'watchslo-fleet.json': import '../../dashboards/watchslo-fleet.json',
    'watchslo-node.json': import '../../dashboards/watchslo-node.json',
    'watchslo-overview.json': import '../../dashboards/watchslo-overview.json',
    'watchslo-protocol.json': import '../../dashboards/watchslo-protocol.json',
    'watchslo-slo.json': import '../../dashboards/watchslo-slo.json',
    'watchslo-trust.json': import '../../dashboards/watchslo-trust.json',
  },
}
