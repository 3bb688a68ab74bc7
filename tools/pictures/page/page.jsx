// Shows the dashboard at `/dashboard.json` by the components of Perses, and says in `window.panels` what each panel has.

import { ChartsProvider, SnackbarProvider, generateChartsTheme, getTheme } from "@perses-dev/components";
import { ViewDashboard } from "@perses-dev/dashboards";
import * as heatmap from "@perses-dev/heatmap-chart-plugin";
import * as markdown from "@perses-dev/markdown-plugin";
import { PluginRegistry, RouterProvider, dynamicImportPluginLoader } from "@perses-dev/plugin-system";
import * as prometheus from "@perses-dev/prometheus-plugin";
import * as stat from "@perses-dev/stat-chart-plugin";
import * as table from "@perses-dev/table-plugin";
import * as timeseries from "@perses-dev/timeseries-chart-plugin";
import { ThemeProvider } from "@mui/material";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { QueryParamProvider } from "use-query-params";
import { WindowHistoryAdapter } from "use-query-params/adapters/window";

const PLUGINS = {
  heatmap: [heatmap, { Panel: ["HeatMapChart"] }],
  markdown: [markdown, { Panel: ["Markdown"] }],
  prometheus: [
    prometheus,
    {
      Datasource: ["PrometheusDatasource"],
      TimeSeriesQuery: ["PrometheusTimeSeriesQuery"],
      Variable: ["PrometheusLabelValuesVariable"],
    },
  ],
  stat: [stat, { Panel: ["StatChart"] }],
  table: [table, { Panel: ["Table"] }],
  timeseries: [timeseries, { Panel: ["TimeSeriesChart"] }],
};
const NO_DATASOURCES = {
  getDatasource: async () => undefined,
  getGlobalDatasource: async () => undefined,
  listDatasources: async () => [],
  listGlobalDatasources: async () => [],
};

const loader = dynamicImportPluginLoader(
  Object.entries(PLUGINS).map(([name, [module, kinds]]) => ({
    resource: {
      kind: "PluginModule",
      metadata: { name, version: "" },
      spec: {
        plugins: Object.entries(kinds).flatMap(([kind, names]) =>
          names.map((name) => ({ kind, spec: { name, display: { name } } })),
        ),
      },
    },
    importPlugin: async () => module,
  })),
);
const client = new QueryClient({ defaultOptions: { queries: { retry: false, refetchOnWindowFocus: false } } });
const theme = getTheme("light");

/** Return the state of each query of the dashboard by its specification, as far as Perses has begun it. */
function queries() {
  const active = client.getQueryCache().findAll({ type: "active" });
  const named = active.filter(({ queryKey }) => queryKey[0]?.kind === "TimeSeriesQuery");
  return new Map(named.map(({ queryKey, state }) => [JSON.stringify(queryKey[0].spec.plugin.spec), state]));
}

function hasNumber({ values, histograms = [] }) {
  return histograms.length > 0 || values.some(([, value]) => Number.isFinite(value));
}

/** Return the title and the errors of a panel and whether it is empty; null while it loads. */
function panel({ display, queries: of = [] }, element, states) {
  const own = of.map(({ spec }) => states.get(JSON.stringify(spec.plugin.spec)));
  const loads = element.querySelector(".MuiSkeleton-root, [aria-busy=true], [role=progressbar]");
  if (loads || own.some((state) => !state || state.status === "loading" || state.fetchStatus !== "idle")) return null;
  const errors = own.filter(({ error }) => error).map(({ error }) => String(error));
  errors.push(...[...element.querySelectorAll("[role=alert]")].map(({ innerText }) => innerText));
  return { title: display.name, errors, empty: of.length > 0 && !own.some(({ data }) => data?.series.some(hasNumber)) };
}

/** Return all panels as they are shown; null while one loads. */
function shown({ panels, layouts }) {
  const names = layouts.flatMap(({ spec }) => spec.items.map((item) => item.content.$ref.split("/").at(-1)));
  const elements = [...document.querySelectorAll("[data-testid=panel]")];
  if (elements.length < names.length) return null;
  const states = queries();
  const found = names.map((name, index) => panel(panels[name].spec, elements[index], states));
  return found.includes(null) ? null : found;
}

function App({ dashboard }) {
  return (
    <ThemeProvider theme={theme}>
      <ChartsProvider chartsTheme={generateChartsTheme(theme, {})}>
        <SnackbarProvider>
          <QueryClientProvider client={client}>
            <QueryParamProvider adapter={WindowHistoryAdapter}>
              <RouterProvider RouterComponent={(props) => <a {...props} />} navigate={() => {}}>
                <PluginRegistry
                  pluginLoader={loader}
                  defaultPluginKinds={{ Panel: "TimeSeriesChart", TimeSeriesQuery: "PrometheusTimeSeriesQuery" }}
                >
                  <ViewDashboard
                    dashboardResource={dashboard}
                    datasourceApi={NO_DATASOURCES}
                    dashboardTitleComponent={<strong>{dashboard.spec.display.name}</strong>}
                    isReadonly
                    isVariableEnabled
                  />
                </PluginRegistry>
              </RouterProvider>
            </QueryParamProvider>
          </QueryClientProvider>
        </SnackbarProvider>
      </ChartsProvider>
    </ThemeProvider>
  );
}

const dashboard = await (await fetch("/dashboard.json")).json();
window.panels = () => shown(dashboard.spec);
createRoot(document.getElementById("root")).render(<App dashboard={dashboard} />);
