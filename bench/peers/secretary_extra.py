async def figures(store):
    return {}
