"""A handler whose name, log, error and results all try to run a script in the browser."""

from typing import Any

from pydantic import BaseModel

from secretary import JobContext, JobFailed, Registry, handles

SCRIPT = "<img src=x onerror=\"window.hacked='{}'\"><script>window.hacked='{}'</script>"

MARKDOWN = """# Minutes <script>window.hacked = 1</script>

<img src="x" onerror="window.hacked = 2"> <svg onload="window.hacked = 3"></svg>

[a link](javascript:window.hacked=4) <a href="javascript:window.hacked=5">another</a>

![from elsewhere](https://tracker.invalid/pixel.png) <iframe src="https://tracker.invalid"></iframe>

<style>body { display: none }</style><div style="position: fixed; inset: 0">over everything</div>
<form action="https://tracker.invalid"><input name="key"><button>Log in</button></form>

The text itself stays readable.
"""


class HostileParameters(BaseModel):
    fail: bool = False


@handles("hostile", HostileParameters)
async def hostile(ctx: JobContext[HostileParameters]) -> dict[str, Any]:
    text = SCRIPT.replace("{}", "log")
    await ctx.log(text)
    await ctx.progress(text, 10, text)
    if ctx.parameters.fail:
        raise JobFailed(SCRIPT.replace("{}", "error"))
    return {
        "markdown_content": MARKDOWN,
        "structured_data": {SCRIPT: [{SCRIPT: SCRIPT}], "link": "javascript:window.hacked=6"},
        "extracted_text": SCRIPT,
        "assets": [f"/api/files/{SCRIPT}", '"><script>window.hacked=7</script>'],
        "metadata": {"text_contents": [{"page": SCRIPT, "content": SCRIPT, "method": SCRIPT}]},
        "transcription": {"segments": [{"start": 0, "end": 1, "text": SCRIPT}], "text": SCRIPT},
    }


def register(registry: Registry) -> None:
    registry.add(hostile)
