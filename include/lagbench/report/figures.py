"""Draw the report's figures; all figures over time share one time axis."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from lagbench.core.measures import NANOSECONDS, Measures
from lagbench.report.run_series import RunSeries, Series

INK, MUTED, GRID = "#1f2933", "#7b8794", "#e4e7eb"
LAG, HOTTEST = "#b44d12", "#e9b99b"
DESIRED, READY = "#52606d", "#2f6f4f"
OFFERED, CONSUMED = "#9aa5b1", "#2563a8"
LATENCY = "#7c4d9e"
CPU, CPU_HIGHEST = "#0f766e", "#99d0ca"
ACTION = "#6b21a8"
EPISODE = {
    "scale_up": "#2f6f4f",
    "scale_down": "#b44d12",
    "pod_death": "#a61b1b",
    "action": ACTION,
}
CHAIN = ("#334e68", "#486581", "#627d98", "#829ab1", "#9fb3c8", "#bcccdc", "#d9e2ec", "#e9b99b")
TITLE_ROWS = (
    "lag (messages)",
    "replicas",
    "rate (messages per second)",
    "time lag p99 (s)",
    "CPU of a consumer pod (cores)",
    "partitions held by each pod",
)


def timeline(series: RunSeries, measures: Measures) -> go.Figure:
    """Draw lag, replicas, rates, time lag, CPU and assignment over one time axis, with events."""
    figure = make_subplots(
        rows=6,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.035,
        row_heights=[0.21, 0.15, 0.19, 0.12, 0.12, 0.21],
        subplot_titles=TITLE_ROWS,
    )
    _line(figure, 1, series.total_lag, "total lag", LAG, width=2.2)
    _line(figure, 1, series.hottest_lag, "hottest partition's lag", HOTTEST)
    _line(figure, 2, series.desired, "desired replicas", DESIRED, shape="hv", dash="dot")
    _line(figure, 2, series.ready, "ready replicas", READY, shape="hv", width=2.2)
    _line(figure, 3, series.offered, "offered", OFFERED, fill="tozeroy")
    _line(figure, 3, series.consumed, "consumed", CONSUMED, width=1.8)
    _line(figure, 4, series.latency_p99, "time lag p99", LATENCY)
    _line(figure, 5, series.cpu_highest, "CPU, highest", CPU_HIGHEST)
    _line(figure, 5, series.cpu_mean, "CPU, mean", CPU, width=1.8)
    _assignment(figure, 6, series)
    _spike(figure, series, measures)
    _actions(figure, series, measures)
    _episodes(figure, series, measures)
    _scale_steps(figure, series, measures)
    _phases(figure, series)
    figure.update_xaxes(
        showgrid=True,
        gridcolor=GRID,
        zeroline=False,
        showspikes=True,
        spikemode="across",
        spikethickness=1,
        spikecolor=MUTED,
    )
    figure.update_yaxes(showgrid=True, gridcolor=GRID, zeroline=False, rangemode="tozero")
    figure.update_xaxes(title_text=f"seconds since {series.origin_name}", row=6, col=1)
    figure.update_layout(**_layout(1190), hovermode="x unified")
    figure.update_annotations(font_size=12)
    return figure


def reaction_bar(measures: Measures) -> go.Figure | None:
    """Draw the reaction chain as one bar, one part per link; None if no part is known."""
    figure, left, number = go.Figure(), 0.0, 0
    for link in measures.reaction.links:
        if link.part_seconds is None:
            continue
        figure.add_bar(
            x=[link.part_seconds],
            y=["reaction"],
            base=[left],
            orientation="h",
            name=f"{link.name}  {link.title}",
            marker={"color": CHAIN[number % len(CHAIN)], "line": {"color": "white", "width": 1}},
            text=[f"{link.name} {link.part_seconds:.2f} s"],
            textposition="inside",
            insidetextanchor="middle",
            hovertemplate=f"{link.title}: %{{x:.3f}} s<extra>{link.name}</extra>",
        )
        left, number = left + link.part_seconds, number + 1
    if number == 0:
        return None
    figure.update_layout(**_layout(210), barmode="overlay", bargap=0.45)
    figure.update_xaxes(title_text="seconds since the load step", gridcolor=GRID)
    figure.update_yaxes(showticklabels=False)
    figure.update_layout(legend={"orientation": "h", "y": -0.65, "font": {"size": 11}})
    return figure


def _layout(height: int) -> dict[str, object]:
    return {
        "height": height,
        "template": "plotly_white",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "margin": {"l": 70, "r": 24, "t": 48, "b": 48},
        "legend": {"orientation": "h", "y": 1.06, "x": 0, "font": {"size": 11}},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def _line(
    figure: go.Figure,
    row: int,
    series: Series,
    name: str,
    colour: str,
    *,
    width: float = 1.4,
    shape: str = "linear",
    dash: str = "solid",
    fill: str | None = None,
) -> None:
    if series.is_empty:
        return
    figure.add_trace(
        go.Scatter(
            x=np.round(series.seconds, 3),
            y=np.round(series.values, 3),
            name=name,
            mode="lines",
            line={"color": colour, "width": width, "shape": shape, "dash": dash},
            fill=fill,
            fillcolor="rgba(154,165,177,0.18)" if fill else None,
            connectgaps=False,
        ),
        row=row,
        col=1,
    )


def _assignment(figure: go.Figure, row: int, series: RunSeries) -> None:
    """Draw a heat map: one row per pod, one column per second, coloured by partitions held."""
    pods = [pod for pod in series.pods if pod.seconds.size]
    if not pods:
        return
    start = min(float(pod.seconds[0]) for pod in pods)
    end = max(float(pod.seconds[-1]) for pod in pods)
    if not series.total_lag.is_empty:
        end = max(end, float(series.total_lag.seconds[-1]))
    grid = np.arange(np.floor(start), np.ceil(end) + 1.0)
    held = np.full((len(pods), grid.size), np.nan)
    for index, pod in enumerate(pods):
        position = np.searchsorted(pod.seconds, grid, side="right") - 1
        seen = position >= 0
        held[index, seen] = pod.partitions[position[seen]]
        if pod.gone is not None:
            held[index, grid > pod.gone] = np.nan
    figure.add_trace(
        go.Heatmap(
            x=grid,
            y=[pod.pod.removeprefix("consumer-") for pod in pods],
            z=held,
            zmin=0,
            zmax=max(1.0, float(np.nan_to_num(held).max(initial=0.0))),
            colorscale=[[0, "#fbe3d6"], [0.001, "#dcebf7"], [1, "#1d4f86"]],
            showscale=False,
            hoverongaps=False,
            hovertemplate="%{y}: %{z} partitions<extra></extra>",
            xgap=0,
            ygap=2,
        ),
        row=row,
        col=1,
    )
    figure.update_yaxes(type="category", tickfont={"size": 9}, row=row, col=1)


def _seconds(series: RunSeries, at: int) -> float:
    return (at - series.origin_at) / NANOSECONDS


def _spike(figure: go.Figure, series: RunSeries, measures: Measures) -> None:
    load = measures.load
    if load.first_spike_started_at is None or load.last_spike_ended_at is None:
        return
    figure.add_vrect(
        x0=_seconds(series, load.first_spike_started_at),
        x1=_seconds(series, load.last_spike_ended_at),
        fillcolor="#f0b429",
        opacity=0.10,
        line_width=0,
        annotation_text="spike" if load.spikes == 1 else f"{load.spikes} spikes",
        annotation_position="top left",
        annotation_font_size=10,
        row=1,
        col=1,
    )


def _actions(figure: go.Figure, series: RunSeries, measures: Measures) -> None:
    """Draw each action over all panels, from the stamp of its begin to that of its end."""
    for action in measures.actions:
        if action.started_at is None:
            continue
        start = _seconds(series, action.started_at)
        end = start if action.ended_at is None else _seconds(series, action.ended_at)
        figure.add_vrect(
            x0=start,
            x1=max(end, start + 0.2),
            fillcolor=ACTION,
            opacity=0.10,
            line={"color": ACTION, "width": 1},
            row="all",
            col=1,
        )
        figure.add_annotation(
            x=start,
            y=1,
            yref="y domain",
            yanchor="top",
            xanchor="right",
            text=action.kind.replace("_", " "),
            textangle=-90,
            showarrow=False,
            font={"size": 10, "color": ACTION},
            row=1,
            col=1,
        )


def _episodes(figure: go.Figure, series: RunSeries, measures: Measures) -> None:
    for episode in measures.rebalances.episodes:
        start = _seconds(series, episode.started_at)
        end = start if episode.ended_at is None else _seconds(series, episode.ended_at)
        figure.add_vrect(
            x0=start,
            x1=max(end, start + 0.2),
            fillcolor=EPISODE.get(episode.trigger, MUTED),
            opacity=0.16,
            line_width=0,
            row=3,
            col=1,
        )


def _scale_steps(figure: go.Figure, series: RunSeries, measures: Measures) -> None:
    for change in measures.scaling.changes:
        figure.add_annotation(
            x=_seconds(series, change.at),
            y=change.replicas_after,
            text=f"{change.replicas_before}→{change.replicas_after}",
            showarrow=True,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor=MUTED,
            ax=0,
            ay=-18,
            font={"size": 10, "color": INK},
            row=2,
            col=1,
        )


def _phases(figure: go.Figure, series: RunSeries) -> None:
    """Mark the start of each phase at the foot of the rate panel."""
    for span in series.phases:
        figure.add_vline(
            x=span.start, line_width=1, line_dash="dot", line_color=GRID, row="all", col=1
        )
        figure.add_annotation(
            x=span.start,
            y=0,
            yref="y4 domain",
            yanchor="bottom",
            xanchor="left",
            text=span.name.replace("_", " "),
            textangle=-90,
            showarrow=False,
            font={"size": 9, "color": MUTED},
            row=4,
            col=1,
        )
